#pragma once
// The stack: embedding, blocks, final norm, head and loss, forward and backward.

#include <vector>

#include "lathe/model/config.h"
#include "lathe/model/ctx.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

/// What backward recomputes instead of keeping.
enum class Recompute : u8 { none, attention, block };

/// The parameter table of a model: read by everything that touches parameters.
std::vector<parallel::ParamSpec> param_specs(const ModelConfig& m);

/// Gradient of the tied embedding from the input side, kept apart until the step's end so that the
/// order of its sums does not depend on micro-batches. See Transformer::finish_gradients.
class Transformer {
 public:
  /// Views of `p`, which must outlive this and hold param_specs(m).
  Transformer(const ModelConfig& m, parallel::ParamSet& p);

  /// Takes from `state` what lives for the whole run: RoPE angles, the tied embedding's second
  /// gradient (training only).
  void take_state(Ctx& c, Arena& state, bool training);

  /// One micro-batch, forward and backward. Adds the sum of its tokens' losses to loss_sum (1, 1)
  /// f64, and the gradient of that *sum* to every grad. Leaves both arenas as it found them.
  void train(Ctx& c, const Batch& b, const Tensor& loss_sum, Recompute r) const;
  /// The step's last call: folds the tied embedding's second gradient into the first.
  void finish_gradients(Ctx& c) const;
  /// Forward only: adds to loss_sum.
  void evaluate(Ctx& c, const Batch& b, const Tensor& loss_sum) const;
  /// Forward only: logits (B*T, V) in the master type, for small batches (tests, sampling).
  void logits(Ctx& c, const Batch& b, const Tensor& out) const;

  const ModelConfig& config() const;
};

}  // namespace lathe::model
