#pragma once
// One optimizer step. With real kernels and arenas it trains; with dry kernels and measuring arenas
// the same function computes nothing and yields what the real one will need (train/footprint.h).

#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/error.h"
#include "lathe/base/queue.h"
#include "lathe/data/loader.h"
#include "lathe/kernels/kernels.h"
#include "lathe/model/decode.h"
#include "lathe/model/transformer.h"
#include "lathe/optim/optimizer.h"
#include "lathe/optim/schedule.h"
#include "lathe/parallel/params.h"
#include "lathe/train/config.h"
#include "lathe/train/fidelity.h"
#include "lathe/train/footprint.h"

namespace lathe::train {

/// All memory of a run whose size depends on its configuration.
struct Arenas {
  Arena weights, gradients, state, kept, scratch, loader;

  static Arenas measuring();
  /// Of exactly the sizes that measure() found.
  static Arenas backed(const Footprint& f);
  std::array<const Arena*, 6> all() const {
    return {&weights, &gradients, &state, &kept, &scratch, &loader};
  }
};

/// Worker threads of a run: as configured, or one for each core this process may use.
int thread_count(const RunConfig& c);

/// Training data that can no longer be read. The step that asked for it has changed nothing.
class DataLost : public Error {
 public:
  explicit DataLost(const Error& e) : Error(e) {}
};

/// A loss, gradient or weight that is no longer finite: the run cannot go on from there.
class Diverged : public Error {
 public:
  Diverged(i64 step, const Error& e) : Error(e), step_(step) {}
  i64 step() const { return step_; }

 private:
  i64 step_;
};

/// A loss summed over tokens.
struct Loss {
  double sum = 0;
  i64 tokens = 0;  // with a target
  double mean() const { return sum / static_cast<double>(tokens); }
};

struct StepResult {
  Loss loss = {};        // before the update
  double grad_norm = 0;  // of the mean loss, all parameters, before clipping
  double lr = 0;
  double loss_scale = 1;                     // that the step was taken with
  bool skipped = false;                      // a gradient overflowed under it: it is halved, and no
                                             // weight has changed
  std::vector<OperandHealth> fidelity = {};  // of a step at which it was measured
  std::vector<LevelChange> changes = {};     // of an adaptive recipe, from the next step on
};

/// A model in training: parameters, optimizer, and the buffers of one micro-batch.
class Trainer {
 public:
  /// Takes its memory from `a`, which with `k` and `q` must outlive this. Masters and moments are
  /// undefined until init() or a checkpoint has filled them.
  Trainer(const RunConfig& c, const kernels::Kernels& k, Queue& q, Arenas& a);

  /// As before step 1.
  void init();
  /// After masters and state were filled from a checkpoint: all is as step `next` will find it.
  void refresh(i64 next);
  /// What the recipe carries from step to step: histories of amaxes, the scale of the loss.
  std::vector<std::pair<std::string, Tensor>> recipe_state();

  /// Step `number`, 1-based, on the sequences that belong to it. Throws DataLost; throws Error when
  /// no token has a target, or when the loss or a gradient is not finite (unless the recipe scales
  /// the loss and can lower the scale): no weight has changed then. A dry run has no loader.
  StepResult step(i64 number, const data::Loader* loader);

  /// What each of `recipes`, as it is for most layers, would do to every operand of the first
  /// `sequences` (whole micro-batches) of step `number`, which is not taken: health[r] are those of
  /// recipes[r]. The loss is scaled as each begins; as it is now for the run's own. Gradients are
  /// spent.
  std::vector<std::vector<OperandHealth>> scan(i64 number, i64 sequences,
                                               const data::Loader& loader,
                                               std::span<const numerics::Recipe> recipes);

  /// Loss over the first `sequences` of the loader, without learning.
  Loss evaluate(const data::Loader* loader, i64 sequences);

  /// A decoder of what has been learned so far, in memory that steps use: it must be gone before
  /// the next one.
  model::Decoder decoder() { return {transformer_, k_, recipe_, q_, ctx_.keep, ctx_.temp}; }

  /// Throws Diverged naming the first parameter that holds anything not finite.
  void check_weights(i64 step);

  parallel::ParamSet& params() { return params_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  const model::Transformer& transformer() const { return transformer_; }

 private:
  i64 fill(const data::Loader* loader, i64 first, i64 count);
  void take_squares(Tensor parallel::Param::* what);
  Loss learn(i64 number, i64 sequences, const data::Loader* loader, const parallel::Probe* probe);
  double gradient_norm(i64 step, const Loss& loss);
  bool overflowed(const Loss& loss);
  void reset_loss_scale();
  void grow_loss_scale();
  StepResult skip(i64 number, const Loss& loss);

  RunConfig c_;
  const kernels::Kernels& k_;
  Queue& q_;
  const numerics::Recipe& recipe_;
  model::Recompute recompute_;
  optim::Schedule schedule_;
  parallel::ParamSet params_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  FidelityWatch watch_;
  model::Transformer transformer_;
  model::Ctx ctx_;
  Tensor ids_, targets_, doc_start_;  // (micro_batch, T) int32
  Tensor loss_sum_;                   // (1, 1) f64
  Tensor squares_;                    // (1, parameters) f64
  Tensor loss_scale_;                 // (1, 2) f64: the scale, and steps since it last changed
};

}  // namespace lathe::train
