#pragma once
// What a recipe does to the operands of a run, measured every so many steps; and, where the recipe
// adapts, the choices made from it. Both are data beside the step: layers record into a Probe, and
// read their products from the table.

#include <string>
#include <utility>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/encode.h"
#include "lathe/kernels/kernels.h"
#include "lathe/numerics/policy.h"
#include "lathe/numerics/recipe.h"
#include "lathe/parallel/params.h"

namespace lathe::train {

/// One operand of one layer's products, in a format.
struct OperandHealth {
  std::string layer;    // "layers.0.attn.qkv"
  std::string operand;  // "forward.x"
  std::string level;    // of an adaptive recipe; else empty
  numerics::Health health;
};

/// A product that went to another level.
struct LevelChange {
  std::string layer, product;  // "layers.0.attn.qkv", "grad_w"
  std::string from, to;        // names of levels
};

/// "forward.x", "grad_w.dy", …
const char* name_of(parallel::Slot s);

/// From a row of sums (kernels::Fidelity).
numerics::Health health_of(const ConstTensor& sums);

/// Adds to the probe what encoding does to the weights, `at` saying seed and step.
void record_weights(Queue& q, const kernels::Kernels& k, const parallel::Probe& probe,
                    const parallel::ParamSet& p, const kernels::Draws& at);

/// What the probe saw of every operand as what[which] encodes it.
std::vector<OperandHealth> healths_of(const parallel::Probe& probe, i64 which,
                                      const parallel::ParamSet& p);

class FidelityWatch {
 public:
  /// Measures every `every` steps, and at the first, besides when the recipe's adaptation asks; 0:
  /// only then. Takes its memory from `state`.
  FidelityWatch(const numerics::Recipe& recipe, i64 every, const parallel::ParamSet& p,
                Arena& state);

  FidelityWatch(const FidelityWatch&) = delete;
  FidelityWatch& operator=(const FidelityWatch&) = delete;

  /// As before the first step: every choice is the highest level.
  void reset();
  /// Whether a step is measured.
  bool due(i64 step) const { return at(every_, step) || decides(step); }
  /// Whether choices follow from it: `every` has no say in that.
  bool decides(i64 step) const { return adaptive() && at(recipe_.adaptive.every, step); }
  /// Forgets what was recorded; the probe is then ready for a step's micro-batches.
  const parallel::Probe* begin(Queue& q, const kernels::Kernels& k);
  /// What was recorded of every operand in the format that it has.
  std::vector<OperandHealth> healths(const parallel::ParamSet& p) const;
  /// Makes the choices for the steps that follow.
  std::vector<LevelChange> decide(const parallel::ParamSet& p);
  /// Puts the choices into the table, over what the recipe says there.
  void apply(parallel::ParamSet& p) const;
  /// For checkpoints: nothing where nothing adapts.
  std::vector<std::pair<std::string, Tensor>> state() const;

 private:
  static bool at(i64 every, i64 step) { return every > 0 && (step == 1 || step % every == 0); }
  bool adaptive() const { return !recipe_.adaptive.levels.empty(); }
  numerics::Choice choice(i64 parameter, i64 product) const;
  void set_choice(i64 parameter, i64 product, const numerics::Choice& c);

  const numerics::Recipe& recipe_;
  i64 every_;
  std::vector<numerics::Products> levels_;
  parallel::Probe probe_;
  Tensor choices_;  // (parameters x 3, 3) int32: level, asked, lowest
};

}  // namespace lathe::train
