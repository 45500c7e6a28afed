#pragma once
// One optimizer step. With real kernels and arenas it trains; with dry kernels and measuring arenas
// the same function computes nothing and yields what the real one will need (train/footprint.h).

#include <array>
#include <memory>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/error.h"
#include "lathe/base/queue.h"
#include "lathe/data/loader.h"
#include "lathe/kernels/kernels.h"
#include "lathe/model/transformer.h"
#include "lathe/optim/optimizer.h"
#include "lathe/optim/schedule.h"
#include "lathe/parallel/params.h"
#include "lathe/train/config.h"
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

/// A loss summed over tokens.
struct Loss {
  double sum = 0;
  i64 tokens = 0;  // with a target
  double mean() const { return sum / static_cast<double>(tokens); }
};

struct StepResult {
  Loss loss;             // before the update
  double grad_norm = 0;  // of the mean loss, over all parameters, before clipping
  double lr = 0;
};

/// A model in training: parameters, optimizer, and the buffers of one micro-batch.
class Trainer {
 public:
  /// Takes its memory from `a`, which with `k` and `q` must outlive this. Masters and moments are
  /// undefined until init() or a checkpoint has filled them.
  Trainer(const RunConfig& c, const kernels::Kernels& k, Queue& q, Arenas& a);

  /// As before step 1.
  void init();
  /// After the masters were filled from a checkpoint.
  void refresh() { params_.refresh_work(q_, k_); }

  /// Step `number`, 1-based, on the sequences that belong to it. Throws DataLost; throws Error when
  /// no token has a target, or when the loss or a gradient is not finite: no weight has changed
  /// then. A dry run has no loader.
  StepResult step(i64 number, const data::Loader* loader);

  /// Loss over the first `sequences` of the loader, without learning.
  Loss evaluate(const data::Loader* loader, i64 sequences);

  /// Throws Error naming the first parameter that holds anything not finite.
  void check_weights(i64 step);

  parallel::ParamSet& params() { return params_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  const model::Transformer& transformer() const { return transformer_; }

 private:
  i64 fill(const data::Loader* loader, i64 first, i64 count);
  void take_squares(Tensor parallel::Param::* what);
  double gradient_norm(i64 step, const Loss& loss);

  RunConfig c_;
  const kernels::Kernels& k_;
  Queue& q_;
  const numerics::Recipe& recipe_;
  model::Recompute recompute_;
  optim::Schedule schedule_;
  parallel::ParamSet params_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  model::Transformer transformer_;
  model::Ctx ctx_;
  Tensor ids_, targets_, doc_start_;  // (micro_batch, T) int32
  Tensor loss_sum_;                   // (1, 1) f64
  Tensor squares_;                    // (1, parameters) f64
};

}  // namespace lathe::train
