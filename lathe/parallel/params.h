#pragma once
// A parameter is a row in one table. Allocation, initialisation, optimizer groups, checkpoints,
// export and the planner all read that table; nothing knows a parameter by its position.

#include <string>
#include <string_view>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/numerics/recipe.h"

namespace lathe::parallel {

/// What a parameter is for: decides decay, initialisation and precision.
enum class Role : u8 { matrix, embedding, position, gain, bias };

/// Along which dimension a parameter may be shared out over the tensor axis.
enum class Shard : u8 { none, rows, cols };

struct ParamSpec {
  std::string name;  // "layers.3.attn.qkv"
  i64 rows = 1, cols = 1;
  Role role = Role::matrix;
  Shard shard = Shard::none;
  double init_std = 0;  // normal of this deviation; gains start at 1, biases at 0
  bool lookup = false;  // only ever read by row, never by a product: needs no copy for products

  i64 size() const { return rows * cols; }
};

/// One parameter's storage. All of them (rows, cols). `work` is what products read: the master
/// converted to the recipe's operand format, or the master itself where that is the same.
struct Param {
  ParamSpec spec;
  Tensor master, grad, work;
};

/// All parameters of a model, in the order of the table.
class ParamSet {
 public:
  /// Takes master (and grad, and work where it differs) from the arenas; a measuring arena gives a
  /// dry set. Inference asks for no gradients: their arena is null then.
  ParamSet(std::vector<ParamSpec> specs, const numerics::Recipe& recipe, Arena& weights,
           Arena* grads);

  i64 count() const { return static_cast<i64>(params_.size()); }
  Param& operator[](i64 i) { return params_[static_cast<std::size_t>(i)]; }
  const Param& operator[](i64 i) const { return params_[static_cast<std::size_t>(i)]; }
  /// A CHECK fails when there is none of that name.
  Param& at(std::string_view name);
  /// Null when there is none.
  const Param* find(std::string_view name) const;
  std::vector<Param>& all() { return params_; }
  const std::vector<Param>& all() const { return params_; }
  /// Elements over all parameters.
  i64 elements() const;

  /// Fills every master from the table: a function of seed, name and element alone.
  void init(u64 seed);
  /// work = master converted; after every change of the masters.
  void refresh_work(Queue& q, const kernels::Kernels& k);
  /// grad = 0.
  void zero_grads(Queue& q, const kernels::Kernels& k);

 private:
  std::vector<Param> params_;
};

}  // namespace lathe::parallel
