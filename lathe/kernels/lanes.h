#pragma once
// Sixteen lanes: the unit in which every row is worked on, in every back end. A row sum is taken in
// sixteen partial sums, element i going to lane i mod 16, and the lanes are then folded in halves:
// 8, 4, 2, 1. Whatever the width of the machine's registers, these are the same additions, so row
// kernels are written once, as templates over a lane type, and give the same bits everywhere.
//
// A lane type L has: Scalar; load(p), load(p, n) from float, bf16 or double (n < 16: the rest is
// zero), store(p), store(p, n) (bf16 rounds to nearest even), broadcast(s), arithmetic operators,
// fma, min/max, select, comparisons giving Mask, sum() in the order above, and for exp what math.h
// asks. Plain<S> is the one in plain C++, also for double and complex<double> (gradient checks by
// complex step compare and select by the real part).

#include <bit>
#include <cmath>
#include <complex>

#include "lathe/base/view.h"

namespace lathe::kernels {

inline constexpr i64 kLanes = 16;

/// BF16 to float: exact.
LATHE_INLINE float to_float(bf16 x) { return std::bit_cast<float>(u32{x.bits} << 16); }

/// Float to BF16, to nearest even in one rounding; NaN stays NaN (quiet), subnormals stay.
LATHE_INLINE bf16 to_bf16(float x) {
  const u32 u = std::bit_cast<u32>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<u16>((u >> 16) | 0x40u)};
  return {static_cast<u16>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

}  // namespace lathe::kernels
