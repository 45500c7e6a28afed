#pragma once
// The stack: embedding, blocks, final norm, head and loss, forward and backward.

#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/view.h"
#include "lathe/model/block.h"
#include "lathe/model/config.h"
#include "lathe/model/ctx.h"
#include "lathe/model/head.h"
#include "lathe/model/norm.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

/// The parameter table of a model: read by everything that touches parameters.
std::vector<parallel::ParamSpec> param_specs(const ModelConfig& m);

/// A whole model over a set of parameters. A tied embedding's gradient from the input side is kept
/// apart until the step's end, so that the order of its sums does not depend on micro-batches.
class Transformer {
 public:
  struct Stack {
    Embedding embed;
    std::vector<Block> blocks;
    Norm norm;
    Head head;
  };

  /// Views of `p`, which must outlive this and hold param_specs(m).
  Transformer(const ModelConfig& m, parallel::ParamSet& p);

  /// Takes from `state` what lives for the whole run, and fills it: RoPE angles, the tied
  /// embedding's second gradient (training only).
  void take_state(Ctx& c, Arena& state, bool training);

  /// One micro-batch, forward and backward. Adds the sum of its tokens' losses to loss_sum (1, 1)
  /// f64, and the gradient of that *sum* to every grad. Leaves both arenas as it found them.
  void train(Ctx& c, const Batch& b, const Tensor& loss_sum, Recompute r) const;
  /// The step's last call: folds the tied embedding's second gradient into the first, and zeroes it
  /// for the next step.
  void finish_gradients(Ctx& c) const;
  /// Forward only: adds to loss_sum.
  void evaluate(Ctx& c, const Batch& b, const Tensor& loss_sum) const;
  /// Forward only: logits (B*T, V) in the master type, for small batches (tests, sampling).
  void logits(Ctx& c, const Batch& b, const Tensor& out) const;

  const ModelConfig& config() const { return config_; }
  const Stack& stack() const { return stack_; }

 private:
  /// The final norm's result, in c.temp: the caller has a frame open.
  Tensor features(Ctx& c, const Batch& b) const;

  ModelConfig config_;
  Stack stack_;
  Tensor tied_grad_;    // (V, C) the gradient of a tied embedding; empty where it is not tied
  Tensor second_grad_;  // (V, C) its part from the input side
};

}  // namespace lathe::model
