#pragma once
// The weights of attention, 0..1, to the values of a low-precision format, as the left operand of
// their product with the values.

#include <bit>

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
  explicit WeightRounding(const numerics::Encoding& e)
      : WeightRounding(plan_encode(e, Along::cols)) {}
  LATHE_INLINE L operator()(L p) const {
    if (!rounds_) return p;
    if (grid_ == Grid::tapered) return rounded<Grid::tapered>(p);
    if (grid_ == Grid::bits) return rounded<Grid::bits>(p);
    // The others differ in what is negative or overflows.
    return rounded<Grid::lattice>(p);
  }

 private:
  explicit WeightRounding(const EncodePlan& plan)
      : rounds_(!numerics::is_plain(plan.encoding)),
        away_(plan.encoding.rounding == numerics::Tie::away),
        grid_(plan.grid),
        target_(plan) {
    const bool shifts = plan.encoding.scaling == numerics::Scaling::shift;
    const u32 exponent = shifts ? plan.top_exponent : 0;
    const float times = std::bit_cast<float>((127 + exponent) << 23);
    block_ = {L::broadcast(times), L::broadcast(plan.lowest), L::broadcast(plan.top),
              L::broadcast(plan.bottom), L::broadcast(1 / times)};
  }
  template <Grid G>
  LATHE_INLINE L rounded(L p) const {
    using numerics::Tie;
    const typename L::Bits none{};
    if (away_) return round_element<L, G, Tie::away>(p, block_, target_, none);
    return round_element<L, G, Tie::even>(p, block_, target_, none);
  }

  bool rounds_, away_;
  Grid grid_;
  Target<L> target_;
  BlockOf<L> block_{};
};

}  // namespace lathe::kernels
