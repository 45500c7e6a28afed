#pragma once
// The learning rate as a pure function of the step: no state, so nothing to restore.

#include <string>

#include "lathe/base/view.h"

namespace lathe::optim {

struct Schedule {
  std::string name = "cosine";  // constant | linear | cosine | wsd
  double peak = 1e-3;
  double min_ratio = 0.1;
  i64 steps = 1;   // of the whole run
  i64 warmup = 0;  // linear from peak / warmup at step 1 to peak at step `warmup`
  i64 decay = 0;   // wsd: length of the final linear decay

  /// Rate of optimizer step `step`, 1-based. After warm-up: linear and cosine fall to min_ratio *
  /// peak at `steps`; wsd stays at the peak and falls linearly over the last `decay` steps.
  double at(i64 step) const;
};

}  // namespace lathe::optim
