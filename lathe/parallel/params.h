#pragma once
// A parameter is a row in one table. Allocation, initialisation, optimizer groups, checkpoints,
// export and the planner all read that table; nothing knows a parameter by its position.

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/encode.h"
#include "lathe/kernels/gemm.h"
#include "lathe/kernels/kernels.h"
#include "lathe/numerics/encoding.h"
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
  bool head = false;    // it makes the logits
  i64 block = -1;       // number of its block; -1: outside all

  i64 size() const { return rows * cols; }
  /// Whether products read it.
  bool multiplied() const { return !lookup && (role == Role::matrix || role == Role::embedding); }
  /// What it is to a recipe, in a model of so many blocks.
  numerics::Place place(i64 blocks) const { return {name, head, block, blocks}; }
};

/// The operands of a linear layer's products, in the order of numerics::Products. They number the
/// rows of Param::history, and name streams of random bits: append only.
enum class Slot : u8 { forward_x, forward_w, grad_x_dy, grad_x_w, grad_w_dy, grad_w_x };
inline constexpr i64 kSlots = 6;
/// Further names of streams: what attention multiplies, of the parameter that makes it.
inline constexpr auto kQuerySlot = static_cast<Slot>(6), kKeySlot = static_cast<Slot>(7),
                      kValueSlot = static_cast<Slot>(8);
const numerics::Encoding& encoding(const numerics::Products& p, Slot s);
/// The operand that s is encoded as, with whose scale and history: itself, or where one encoding of
/// w (of dy) is right for both products that read it, the first of the two.
Slot served_by(const numerics::Products& p, Slot s);
/// The way vectors of that operand run in the matrix it is stored as.
constexpr kernels::Along along(Slot s) {
  return s == Slot::forward_x || s == Slot::forward_w || s == Slot::grad_x_dy
             ? kernels::Along::cols
             : kernels::Along::rows;
}

/// A wish to know what encoding does to every operand: as the products have it, or as others would.
struct Probe {
  std::span<const numerics::Products> what;  // of each parameter alike; empty: its own
  i64 parameters = 0;
  Tensor sums;  // (rows(), kernels::kFidelities) f64, added to

  i64 kinds() const { return what.empty() ? 1 : static_cast<i64>(what.size()); }
  i64 rows() const { return kinds() * parameters * kSlots; }
  /// Of what[which].
  Tensor row(i64 which, i64 index, Slot s) const {
    return sums.slice_rows((which * parameters + index) * kSlots + static_cast<i64>(s), 1);
  }
};

/// One parameter's storage: master and grad (rows, cols). Of what products multiply by, `work` is
/// the master as forward reads it, `work_back` as grad_x does, both made by refresh_work: the
/// master itself where that is what a product would read.
struct Param {
  ParamSpec spec;
  i64 index = 0;  // in the table
  Tensor master, grad;
  numerics::Place place;
  numerics::Products products;  // at present
  kernels::Operand work, work_back;
  Tensor history;  // (kSlots, 1 + history) f32, rows as kernels/encode.h has them; empty: no slot
                   // is ever scaled by what came before

  bool multiplied() const { return spec.multiplied(); }
  /// The random bits of a slot: `at` says seed and step (as its stream) and the first row.
  kernels::Draws draws(Slot s, const kernels::Draws& at) const;

  struct Copy {
    Tensor codes, scales;  // of the widest of all encodings that the recipe may ask for
  };
  Copy forward_copy, back_copy;
};

/// Adds to the probe what encoding does to x, operand s of the parameter's products.
void record(Queue& q, const kernels::Kernels& k, const Probe& probe, const Param& p, Slot s,
            const ConstTensor& x, const kernels::Draws& at);
/// What is stored in less than the recipe's master type, which must be f32 then.
struct Storage {
  bool bf16_weights = false;    // masters of matrices and embeddings
  bool bf16_gradients = false;  // of weights that products read
};

/// All parameters of a model, in the order of the table.
class ParamSet {
 public:
  /// Takes master (and grad, and copies for products where they differ) from the arenas; a
  /// measuring arena gives a dry set. Inference asks for no gradients: their arena is null then.
  /// Products are those of the recipe's first step.
  ParamSet(const std::vector<ParamSpec>& specs, const numerics::Recipe& recipe, Arena& weights,
           Arena* grads, const Storage& storage = {});

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
  /// Products are as the recipe has them at `step` (1-based) of `steps`; refresh_work then.
  void choose(const numerics::Recipe& r, i64 step, i64 steps);
  /// Products are the n-th of all that the recipe may ever ask for, or the last where there are
  /// fewer; false when nowhere there are as many. For measuring.
  bool choose_alternative(const numerics::Recipe& r, i64 n);
  /// Products of one parameter; refresh_work then.
  void choose(i64 index, const numerics::Products& products);
  /// Encodes every master for products; after every change of the masters or of the products. `at`
  /// gives seed and step of random bits.
  void refresh_work(Queue& q, const kernels::Kernels& k, const kernels::Draws& at = {});
  /// By name ("layers.0.attn.qkv.history"), for checkpoints.
  std::vector<std::pair<std::string, Tensor>> histories() const;
  /// Histories as before the first step.
  void reset_histories(Queue& q, const kernels::Kernels& k);
  /// Ends a step: every scale follows from the amaxes seen so far.
  void update_histories(Queue& q, const kernels::Kernels& k, const numerics::DelayedOptions& o);
  /// grad = 0.
  void zero_grads(Queue& q, const kernels::Kernels& k);

 private:
  std::vector<Param> params_;
};

}  // namespace lathe::parallel
