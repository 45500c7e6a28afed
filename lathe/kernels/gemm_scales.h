#pragma once
// Scales that lie beside the elements of operands (gemm.h): how they cut a sum into chunks, and
// their use on a tile of sums. Written over V, the vectors of one instruction set: V::kLanes, load,
// store, broadcast, mul, fma(x, y, z) = x y + z.

#include "lathe/base/view.h"
#include "lathe/kernels/gemm.h"

namespace lathe::kernels {

/// Elements of a sum that share their scales: 0 where there are none, all where they differ
/// nowhere along the sum.
LATHE_INLINE i64 chunk_of_scales(const Operand& a, const Operand& b) {
  if (a.scales.empty() && b.scales.empty()) return 0;
  const i64 depth = a.summed(), of_a = a.scales.empty() ? 0 : a.scale_depth;
  const i64 chunk = of_a > 0 ? of_a : b.scales.empty() ? 0 : b.scale_depth;
  return chunk > 0 && chunk < depth ? chunk : depth;
}

/// out[i] = what belongs to element k of vector first + i, for `count` vectors; 0 from there up to
/// `room`.
LATHE_INLINE void expand_scales(float* out, i64 room, const Operand& x, i64 first, i64 count,
                                i64 k) {
  for (i64 i = count; i < room; ++i) out[i] = 0;
  const i64 column = x.scale_depth > 0 ? k / x.scale_depth : 0, outer = x.scale_outer;
  if (x.scales.empty() || outer == 0) {
    const float all = x.scales.empty() ? 1.0F : x.scales.row<float>(0)[column];
    for (i64 i = 0; i < count; ++i) out[i] = all;
    return;
  }
  i64 row = first / outer, left = outer - first % outer;
  for (i64 i = 0; i < count; ++row, left = outer) {
    const float shared = x.scales.row<float>(row)[column];
    for (; left > 0 && i < count; --left) out[i++] = shared;
  }
}

/// acc = fma(sums, scale of the row * scale of the column, acc), for `rows` rows of kWide floats
/// that follow one another; kWide is a few V::kLanes.
template <class V, i64 kWide>
LATHE_INLINE void add_scaled(float* acc, const float* sums, i64 rows, const float* row_scales,
                             const float* col_scales) {
  constexpr i64 kCount = kWide / V::kLanes;
  typename V::Reg of_cols[kCount];
#pragma GCC unroll 4
  for (i64 i = 0; i < kCount; ++i) of_cols[i] = V::load(col_scales + i * V::kLanes);
  for (i64 r = 0; r < rows; ++r, acc += kWide, sums += kWide) {
    const typename V::Reg of_row = V::broadcast(row_scales + r);
#pragma GCC unroll 4
    for (i64 i = 0; i < kCount; ++i) {
      float* const at = acc + i * V::kLanes;
      V::store(at, V::fma(V::load(sums + i * V::kLanes), V::mul(of_row, of_cols[i]), V::load(at)));
    }
  }
}

}  // namespace lathe::kernels
