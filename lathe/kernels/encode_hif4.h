#pragma once
// The scales of HiF4 (numerics/block.h): a base for 64 elements, doubled for some eighths and again
// for some sixteenths of them. Every element of a panel gets its own factors, though four in a row
// are the same.

#include "lathe/base/view.h"
#include "lathe/kernels/encode_panel.h"
#include "lathe/kernels/encode_plan.h"
#include "lathe/kernels/encode_round.h"
#include "lathe/kernels/encode_scales.h"
#include "lathe/kernels/lanes.h"

namespace lathe::kernels {

inline constexpr i64 kHif4Block = 64, kHif4Eighth = 8, kHif4Quad = 4;

template <Lanes L>
LATHE_INLINE L nearest_bf16(L x) {
  return L::from(nearest_bits(bits(x), 16));
}

template <Lanes L>
struct Hif4Base {
  L base, reciprocal;

  LATHE_INLINE explicit Hif4Base(L amax) {
    const L seventh = L::broadcast(0x1.24p-3F);  // BF16(1 / 7)
    L b = nearest_bf16(odd_product(amax, seventh));
    b = max(min(b, L::broadcast(49152)), L::broadcast(0x1p-48F));
    const L c = binade(b) * L::broadcast(0x1p21F);
    base = (b + c) - c;
    reciprocal = nearest_bf16(L::broadcast(1) / base);
    reciprocal = select(amax <= L::broadcast(kFloatMax), reciprocal, float_nan<L>());
  }

  /// What elements whose eighth and quad of the block have these amaxes are multiplied by before
  /// they are rounded, and after.
  struct Factors {
    L pre, post;
  };
  LATHE_INLINE Factors factors(L eighth, L quad) const {
    const L one = L::broadcast(1), half = L::broadcast(0.5F), two = L::broadcast(2);
    const auto wide = fma(eighth, reciprocal, L::broadcast(-4)) >= L::broadcast(0);
    const L first = select(wide, half, one);
    const auto wider = fma(quad * first, reciprocal, L::broadcast(-2)) >= L::broadcast(0);
    return {reciprocal * first * select(wider, half, one),
            base * select(wide, two, one) * select(wider, two, one)};
  }
};

/// The larger magnitude, as integers: NaN is above all.
template <Lanes L>
LATHE_INLINE L larger(L a, L b) {
  return L::from(max(bits(a), bits(b)));
}

/// Blocks along the rows of a panel.
template <Lanes L>
LATHE_INLINE void hif4_scales_of_rows(const PanelSpace& s, i64 rows) {
  constexpr i64 kRegisters = kHif4Block / kLanes;
  for (i64 i = 0; i < rows * kPanelCols; i += kHif4Block) {
    L quad[kRegisters], eighth[kRegisters], all = L::broadcast(0);
    for (i64 j = 0; j < kRegisters; ++j) {
      L m = magnitude(L::load(s.x + i + j * kLanes));
      m = larger(m, L::template exchange<1>(m));
      quad[j] = larger(m, L::template exchange<2>(m));
      eighth[j] = larger(quad[j], L::template exchange<4>(quad[j]));
      all = larger(all, larger(eighth[j], L::template exchange<8>(eighth[j])));
    }
    const Hif4Base<L> base(all);
    for (i64 j = 0; j < kRegisters; ++j) {
      const auto factors = base.factors(eighth[j], quad[j]);
      factors.pre.store(s.pre + i + j * kLanes);
      factors.post.store(s.post + i + j * kLanes);
    }
  }
}

/// Blocks down the columns of a panel.
template <Lanes L>
LATHE_INLINE void hif4_scales_of_columns(const PanelSpace& s, i64 rows) {
  constexpr i64 kQuads = kHif4Block / kHif4Quad;
  static_assert(kHif4Eighth == 2 * kHif4Quad);
  for (i64 top = 0; top < rows; top += kHif4Block)
    for (i64 c = 0; c < kPanelCols; c += kLanes) {
      const i64 first = top * kPanelCols + c;
      L quad[kQuads], all = L::broadcast(0);
      for (i64 i = 0; i < kQuads; ++i) {
        quad[i] = L::from(amax_columns<L>(s.x + first + i * kHif4Quad * kPanelCols, kHif4Quad));
        all = larger(all, quad[i]);
      }
      const Hif4Base<L> base(all);
      for (i64 i = 0; i < kQuads; ++i) {
        const auto factors = base.factors(larger(quad[i], quad[i ^ 1]), quad[i]);
        for (i64 k = 0; k < kHif4Quad; ++k) {
          const i64 at = first + (i * kHif4Quad + k) * kPanelCols;
          factors.pre.store(s.pre + at);
          factors.post.store(s.post + at);
        }
      }
    }
}

template <Lanes L>
void hif4_scales(const PanelSpace& s, const EncodePlan& p) {
  if (p.along == Along::cols)
    hif4_scales_of_rows<L>(s, p.height);
  else
    hif4_scales_of_columns<L>(s, p.height);
}

}  // namespace lathe::kernels
