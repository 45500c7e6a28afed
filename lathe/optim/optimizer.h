#pragma once
// From gradients to weights.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/queue.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/update.h"
#include "lathe/parallel/params.h"

namespace lathe::optim {

/// One update rule over all parameters. State lives in the arena it was given.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// One step. Every gradient is multiplied by grad_scale first. `step` is 1-based.
  virtual void update(Queue& q, const kernels::Kernels& k, parallel::ParamSet& p, i64 step,
                      double lr, double grad_scale) = 0;
  /// What a checkpoint saves: name ("layers.0.attn.qkv.m") and storage.
  virtual std::vector<std::pair<std::string, Tensor>> state() = 0;
  /// State = as at step 0.
  virtual void reset(Queue& q, const kernels::Kernels& k) = 0;
};

struct AdamWConfig {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  kernels::MomentKind moments = kernels::MomentKind::plain;
  u64 seed = 0;  // of stochastic rounding
};

/// Parameters of fewer elements keep plain moments where the others' are dynamic (2110.02861), and
/// so do embeddings and positions of any size.
inline constexpr i64 kLeastDynamic = 4096;

/// How the moments of a parameter are stored.
kernels::MomentKind moment_kind(const AdamWConfig& c, const parallel::ParamSpec& s);

/// Decay goes to matrices and embeddings; gains, biases and positions have none. State is named
/// "<parameter>.m" and ".v", with ".m.scales" and ".v.scales" where moments are codes. Parameter w
/// draws at step s from stream_of(w's name, s).
std::unique_ptr<Optimizer> adamw(const AdamWConfig& c, parallel::ParamSet& p, Arena& state);

}  // namespace lathe::optim
