#include "lathe/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lathe/base/view.h"

namespace lathe::optim {

double Schedule::at(i64 step) const {
  const i64 s = std::clamp<i64>(step, 1, std::max<i64>(steps, 1));
  if (s < warmup) return peak * static_cast<double>(s) / static_cast<double>(warmup);
  if (name == "constant") return peak;

  const double floor = peak * min_ratio;
  const i64 fall = decay > 0 ? decay : std::max<i64>(1, steps / 10);
  const i64 from = name == "wsd" ? std::max(warmup, steps - fall) : warmup;
  if (s <= from) return peak;
  const double done = static_cast<double>(s - from) / static_cast<double>(steps - from);
  const double left = name == "cosine" ? 0.5 * (1 + std::cos(std::numbers::pi * done)) : 1 - done;
  return floor + (peak - floor) * left;
}

}  // namespace lathe::optim
