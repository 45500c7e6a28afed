#pragma once
// numerics/scale.h in sixteen lanes: from the amaxes of blocks to what their elements are
// multiplied by (pre), by how much the lattice is shifted (unit), what results are multiplied by
// (post) and what products multiply by (decode). Amaxes come as they are; subnormal ones count as
// zero.

#include "lathe/base/view.h"
#include "lathe/kernels/encode_panel.h"
#include "lathe/kernels/encode_plan.h"
#include "lathe/kernels/encode_round.h"
#include "lathe/kernels/lanes.h"
#include "lathe/numerics/encoding.h"

namespace lathe::kernels {

template <Lanes L>
LATHE_INLINE L float_nan() {
  return L::from(L::Bits::broadcast(0x7fc00000));
}

template <Lanes L>
LATHE_INLINE L without_subnormals(L x) {
  return select(x < L::broadcast(kFloatMinNormal), L::broadcast(0), x);
}

/// 2^(field - 127).
template <Lanes L>
LATHE_INLINE L power_of_field(typename L::Bits field) {
  return L::from(field.shl(23));
}

/// The E8M0 code of an amax.
template <Lanes L>
LATHE_INLINE typename L::Bits mx_code(L amax, const EncodePlan& p) {
  using B = typename L::Bits;
  const B u = bits(amax);
  B sum = u.shr(23), less = B::broadcast(p.top_exponent);
  switch (p.encoding.mx_rule) {
    case numerics::MxRule::floor:
      break;
    case numerics::MxRule::ceil:
      sum = (u + B::broadcast(0x7fffff)).shr(23);
      break;
    case numerics::MxRule::even:
      sum = (u + B::broadcast(u32{1} << (22 - p.mantissa))).shr(23);
      break;
    case numerics::MxRule::round_up: {
      // Of the mantissa alone, so that the product is never subnormal.
      const L mantissa = L::from((u & B::broadcast(0x7fffff)) | B::broadcast(0x3f800000));
      const B v = bits(mantissa * L::broadcast(p.reciprocal));
      sum = sum + (v + B::broadcast(0x7fffff)).shr(23);
      less = B::broadcast(127);
      break;
    }
  }
  return min(max(sum, less) - less, B::broadcast(254));
}

/// The scale 2^(code - 127) in two halves: one on the way in, the other in the lattice, so that
/// neither leaves the normal floats. HiF8's lattice stays where it is.
template <Lanes L>
LATHE_INLINE void mx_scales(const PanelSpace& s, i64 i, const EncodePlan& p) {
  using B = typename L::Bits;
  const L amax = without_subnormals(L::load(s.amax + i));
  const B code = mx_code(amax, p);
  const auto fine = amax <= L::broadcast(kFloatMax);
  B half = (code + B::broadcast(129)).shr(1), rest = code + B::broadcast(128) - half;
  if (p.grid == Grid::tapered) {
    half = max(code, B::broadcast(1)) + B::broadcast(1);
    rest = B::broadcast(127);
  }
  select(fine, power_of_field<L>(B::broadcast(255) - half), float_nan<L>()).store(s.pre + i);
  power_of_field<L>(rest).store(s.unit + i);
  power_of_field<L>(half - B::broadcast(1)).store(s.post + i);
}

template <Lanes L>
LATHE_INLINE void nvfp4_scales(const PanelSpace& s, i64 i, const EncodePlan& p) {
  using B = typename L::Bits;
  const L amax = without_subnormals(L::load(s.amax + i));
  const auto fine = amax <= L::broadcast(kFloatMax);
  const L raw = min(amax * L::broadcast(p.block_factor), L::broadcast(448));
  const L c = max(binade(raw), L::broadcast(0x1p-6F)) * L::broadcast(0x1p20F);
  const L scale = (raw + c) - c;
  const B first = B::broadcast(kFirstInverse);
  const B entry = min(max(bits(scale).shr(20), first) - first, B::broadcast(kInverses - 1));
  u32 at[kLanes];
  float inverse[kLanes];
  entry.store(at);
  for (i64 k = 0; k < kLanes; ++k) inverse[k] = p.inverses[at[k]];
  select(fine, L::load(inverse), float_nan<L>()).store(s.pre + i);
  scale.store(s.post + i);
}

template <Lanes L>
LATHE_INLINE void tile_scales(const PanelSpace& s, i64 i, const EncodePlan& p) {
  const L amax = L::load(s.amax + i);
  const auto fine = amax <= L::broadcast(kFloatMax);
  L decode = max(amax, L::broadcast(1e-4F)) / L::broadcast(448);
  if (p.encoding.power_of_two)
    decode = binade(L::from(bits(decode) + L::Bits::broadcast(0x7fffff)));
  decode = select(fine, decode, float_nan<L>());
  (L::broadcast(1) / decode).store(s.pre + i);
  (decode * L::broadcast(p.inverse_room)).store(s.decode + i);
}

/// numerics::current_scale, but not below the smallest normal float.
template <Lanes L>
LATHE_INLINE L vector_scale(L amax, const EncodePlan& p) {
  const L ratio = L::broadcast(p.largest) / amax;
  L scale = max(min(ratio, L::broadcast(kFloatMax)), L::broadcast(kFloatMinNormal));
  if (p.encoding.power_of_two) scale = binade(scale);
  const auto usable = (amax >= L::broadcast(kFloatMinNormal)) & (amax <= L::broadcast(kFloatMax));
  return select(usable, scale, L::broadcast(1));
}

/// What products multiply a vector by that vector_scale has scaled.
template <Lanes L>
LATHE_INLINE L vector_decode(L scale, const EncodePlan& p) {
  return L::broadcast(1) / scale * L::broadcast(p.inverse_room);
}

/// From s.amax to s.pre, s.unit, s.post and s.decode, each where the scaling has it.
template <Lanes L>
void scale_blocks(const PanelSpace& s, i64 count, const EncodePlan& p) {
  switch (p.encoding.scaling) {
    case numerics::Scaling::mx:
      for (i64 i = 0; i < count; i += kLanes) mx_scales<L>(s, i, p);
      break;
    case numerics::Scaling::nvfp4:
      for (i64 i = 0; i < count; i += kLanes) nvfp4_scales<L>(s, i, p);
      break;
    case numerics::Scaling::tile:
      for (i64 i = 0; i < count; i += kLanes) tile_scales<L>(s, i, p);
      break;
    default:
      break;
  }
}

}  // namespace lathe::kernels
