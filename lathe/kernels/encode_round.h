#pragma once
// Sixteen values to the nearest ones of a format, in float arithmetic that has no rounding but the
// one that is meant.
//
// Added to a power of two c, a value is rounded to a multiple of c's last bit, to nearest even, by
// the addition itself; taking c away again is exact. So the lattice in a value's binade is chosen
// by c, which is the value's exponent times 2^(23 - m). The other roundings look at what was lost,
// which is exact too, and move by one step.

#include <limits>

#include "lathe/base/view.h"
#include "lathe/kernels/encode_plan.h"
#include "lathe/kernels/lanes.h"
#include "lathe/numerics/encoding.h"

namespace lathe::kernels {

inline constexpr float kFloatMax = std::numeric_limits<float>::max();
inline constexpr float kFloatMinNormal = std::numeric_limits<float>::min();
inline constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();

/// The power of two at or below |x|; 0 of zero, infinity of what is not finite.
template <Lanes L>
LATHE_INLINE L binade(L x) {
  return L::from(bits(x) & L::Bits::broadcast(0x7f800000));
}

/// What elements are multiplied by, where the lattice stands, and what the result is multiplied by.
template <Lanes L>
struct BlockOf {
  L pre, low, top, bottom, post;
};

/// What every element of a call has in common.
template <Lanes L>
struct Target {
  L step, room, zero, nan, most;
  typename L::Bits largest;
  int cut;

  LATHE_INLINE explicit Target(const EncodePlan& p)
      : step(L::broadcast(p.step)),
        room(L::broadcast(p.room)),
        zero(L::broadcast(p.zero)),
        nan(L::from(L::Bits::broadcast(0x7fc00000))),
        most(L::broadcast(p.largest)),
        largest(L::Bits::broadcast(p.largest_bits)),
        cut(static_cast<int>(p.cut)) {}
};

/// a >= 0 to multiples of c 2^-23, c being a power of two such that a < c.
template <Lanes L, numerics::Tie T>
LATHE_INLINE L round_by(L a, L c, typename L::Bits random) {
  [[maybe_unused]] const L nearest = (a + c) - c;
  if constexpr (T == numerics::Tie::away) {
    const L half = c * L::broadcast(0x1p-24F);
    return select(a - nearest == half, a + half, nearest);
  } else if constexpr (T == numerics::Tie::stochastic) {
    // The multiple and the next sixteen bits, as a whole number: 2^16 a / (c 2^-23).
    const L per_unit = L::from(L::Bits::broadcast(0x92800000) - bits(c));
    const typename L::Bits multiple = (whole(a * per_unit) + random).shr(16);
    return L::number(multiple) * (c * L::broadcast(0x1p-23F));
  } else {
    return nearest;
  }
}

/// The c of HiF8's binades: 3 mantissa bits in 2^-3..2^3, 2 in 2^-7..2^7, 1 in 2^-15..2^15, powers
/// of two alone from there down to 2^-22.
template <Lanes L>
LATHE_INLINE L tapered_step(L power) {
  const L inverse = L::from(L::Bits::broadcast(0x7f000000) - bits(power));
  const L wide = max(power, inverse);
  L c = select(wide > L::broadcast(8), L::broadcast(0x1p21F), L::broadcast(0x1p20F));
  c = select(wide > L::broadcast(128), L::broadcast(0x1p22F), c);
  c = select(power < L::broadcast(0x1p-15F), L::broadcast(0x1p23F), c);
  return max(power, L::broadcast(0x1p-22F)) * c;
}

/// Where a binade holds one value, the code e + 23 stands for 2^e: of two neighbours the odd e has
/// the even code.
template <Lanes L>
LATHE_INLINE L even_power(L a, L power, L rounded) {
  const typename L::Bits even_exponent = bits(a).shr(23) & L::Bits::broadcast(1);
  const auto stays = L::number(even_exponent) == L::broadcast(0);
  const auto one_value = (a < L::broadcast(0x1p-15F)) & (a >= L::broadcast(0x1p-22F));
  return select(one_value & stays & (a == power * L::broadcast(1.5F)), power, rounded);
}

/// The bits of floats that are not NaN without the lowest `cut`, to nearest even.
template <class B>
LATHE_INLINE B nearest_bits(B u, int cut) {
  const u32 unit = u32{1} << cut, half = unit >> 1, odd = half > 0 ? 1 : 0;
  const B add = B::broadcast(half - odd) + (u.shr(cut) & B::broadcast(odd));
  return (u + add) & B::broadcast(~(unit - 1));
}

/// The bits of a float without the lowest `cut`, rounded.
template <Lanes L, numerics::Tie T>
LATHE_INLINE L round_bits(L a, const Target<L>& t, typename L::Bits random) {
  using B = typename L::Bits;
  const B u = bits(select(a < L::broadcast(kFloatMinNormal), L::broadcast(0), a));
  if constexpr (T == numerics::Tie::even) {
    return L::from(min(nearest_bits(u, t.cut), t.largest));
  } else {
    const u32 unit = u32{1} << t.cut;
    const B add = T == numerics::Tie::away ? B::broadcast(unit >> 1) : random.shr(16 - t.cut);
    return L::from(min((u + add) & B::broadcast(~(unit - 1)), t.largest));
  }
}

/// p = x times y, whose last bit says whether something was lost: rounded to odd, so that rounding
/// it once more to fewer bits is as good as rounding the product once.
template <Lanes L>
LATHE_INLINE L odd_product(L x, L y) {
  using B = typename L::Bits;
  const L p = x * y, lost = fma(x, y, -p);
  // What is lost has the sign of p where p is too small.
  const L toward = L::from(bits(lost) ^ (bits(p) & B::broadcast(0x80000000)));
  const B one = B::broadcast(1);
  const B down = bits(select(toward < L::broadcast(0), L::from(bits(p) - one), p));
  return select(lost != L::broadcast(0), L::from(down | one), p);
}

/// One element: multiplied, limited, rounded, multiplied again. NaNs become the one NaN.
template <Lanes L, Grid G, numerics::Tie T>
LATHE_INLINE L round_element(L x, const BlockOf<L>& b, const Target<L>& t,
                             typename L::Bits random) {
  using B = typename L::Bits;
  L y = G == Grid::product ? odd_product(x, b.pre) : x * b.pre;
  y = y * t.room;
  L q;
  if constexpr (G == Grid::bits) {
    q = round_bits<L, T>(magnitude(y), t, random);
  } else {
    L limit = b.top;
    if constexpr (G == Grid::whole) limit = select(y < L::broadcast(0), b.bottom, b.top);
    const L a = min(limit, magnitude(y));
    const L power = binade(a);
    if constexpr (G == Grid::tapered) {
      q = round_by<L, T>(a, tapered_step(power), random);
      if constexpr (T == numerics::Tie::even) q = even_power(a, power, q);
    } else {
      q = round_by<L, T>(a, max(power, b.low) * t.step, random);
    }
  }
  const B sign = bits(y) & B::broadcast(0x80000000);
  L r = L::from(bits(q) | sign) * b.post + t.zero;
  if constexpr (G == Grid::bits || G == Grid::half) {
    const auto over = (q > t.most) | (magnitude(y) == L::broadcast(kFloatInfinity));
    r = select(over, L::from(sign | B::broadcast(0x7f800000)), r);
  }
  return select(y == y, r, t.nan);
}

}  // namespace lathe::kernels
