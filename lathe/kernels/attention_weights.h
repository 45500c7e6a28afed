#pragma once
// The weights of attention, 0..1, to the values of a low-precision format, as the left operand of
// their product with the values.

#include "lathe/kernels/attention.h"
#include "lathe/kernels/encode_plan.h"
#include "lathe/kernels/encode_round.h"
#include "lathe/kernels/lanes.h"

namespace lathe::kernels {

/// Rounds nothing where the format is a storage type's own, or where lanes are not single.
template <class L>
class WeightRounding {
 public:
  explicit WeightRounding(const numerics::Encoding&) {}
  LATHE_INLINE L operator()(L p) const { return p; }
};

template <class L>
  requires L::kSingle
class WeightRounding<L> {
 public:
  explicit WeightRounding(const numerics::Encoding& e) : target_(plan_encode(e, Along::cols)) {
    if (numerics::is_plain(e)) return;
    const EncodePlan plan = plan_encode(e, Along::cols);
    rounds_ = true;
    tapered_ = plan.grid == Grid::tapered;
    away_ = e.rounding == numerics::Tie::away;
    const float times = e.scaling == numerics::Scaling::shift
                            ? static_cast<float>(u32{1} << plan.top_exponent)
                            : 1.0F;
    block_ = {L::broadcast(times), L::broadcast(plan.lowest), L::broadcast(plan.top),
              L::broadcast(plan.bottom), L::broadcast(1 / times)};
  }
  LATHE_INLINE L operator()(L p) const {
    using numerics::Tie;
    if (!rounds_) return p;
    const typename L::Bits none{};
    if (tapered_) return round_element<L, Grid::tapered, Tie::away>(p, block_, target_, none);
    if (away_) return round_element<L, Grid::lattice, Tie::away>(p, block_, target_, none);
    return round_element<L, Grid::lattice, Tie::even>(p, block_, target_, none);
  }

 private:
  bool rounds_ = false, tapered_ = false, away_ = false;
  Target<L> target_;
  BlockOf<L> block_{};
};

}  // namespace lathe::kernels
