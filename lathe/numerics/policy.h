#pragma once
// Which of several precisions a product should have, from what encoding does to its operands.

#include <span>

#include "lathe/base/view.h"
#include "lathe/numerics/recipe.h"

namespace lathe::numerics {

/// What one encoding does to one tensor.
struct Health {
  double snr_db = 0;     // 10 log10(signal / noise); +inf: exact, NaN: not finite
  double underflow = 0;  // share of the elements other than zero that become zero
  double saturated = 0;  // share of the elements that are cut off
  double amax = 0;       // largest magnitude
};

/// Where a product stands between its levels.
struct Choice {
  i64 level = 0;   // index into Adaptive::levels
  i64 asked = 0;   // measurements in a row that asked for a lower level
  i64 lowest = 0;  // the highest of the levels they asked for
  bool operator==(const Choice&) const = default;
};

/// Whether an operand can live with it. `strict`: by a margin.
bool good_enough(const Health& h, const Adaptive& a, bool strict);

/// The choice after a measurement: health[l * operands + o] is that of operand o at level l.
/// A level that is no longer good enough is left at once, for the lowest above it that is; a lower
/// one is taken when `patience` measurements in a row found it good enough by a margin. The
/// highest level is always good enough.
Choice next_choice(const Choice& now, std::span<const Health> health, const Adaptive& a);

}  // namespace lathe::numerics
