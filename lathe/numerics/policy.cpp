#include "lathe/numerics/policy.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/numerics/recipe.h"

namespace lathe::numerics {

bool good_enough(const Health& h, const Adaptive& a, bool strict) {
  const double most = strict ? 0.8 : 1;  // of a share
  return h.snr_db >= a.snr_db + (strict ? a.margin_db : 0) && h.underflow <= most * a.underflow &&
         h.saturated <= most * a.saturated;
}

Choice next_choice(const Choice& now, std::span<const Health> health, const Adaptive& a) {
  const auto levels = static_cast<i64>(a.levels.size());
  CHECK(levels > 0 && health.size() % a.levels.size() == 0, "{} measurements of {} levels",
        health.size(), levels);
  const std::size_t operands = health.size() / a.levels.size();
  const auto good = [&](i64 level, bool strict) {
    const auto of = health.subspan(static_cast<std::size_t>(level) * operands, operands);
    return level == levels - 1 || std::all_of(of.begin(), of.end(), [&](const Health& h) {
             return good_enough(h, a, strict);
           });
  };
  Choice next = now;
  while (!good(next.level, false)) ++next.level;
  if (next.level != now.level) return {.level = next.level};
  i64 lowest = 0;
  while (lowest < now.level && !good(lowest, true)) ++lowest;
  if (lowest == now.level) return {.level = now.level};
  next.lowest = now.asked > 0 ? std::max(now.lowest, lowest) : lowest;
  if (++next.asked < a.patience) return next;
  return {.level = next.lowest};
}

}  // namespace lathe::numerics
