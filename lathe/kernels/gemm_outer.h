#pragma once
// Blocks of c by outer products in vector registers: a column of a times a row of b, element by
// element of the sum, so that each sum is one chain in the order of gemm.h.
//
// P adds to what gemm_blocked.h asks for:
//   V                vectors of kLanes floats; Step::apply(acc, a, b) takes one packed unit of 4
//                    bytes a lane further
//   kPaired          bf16: units go alternately to two chains (even and odd elements), which are
//                    folded into the sum at the end of each group
//   kGroupUnits      units of a group
//   kTileRows        rows of c whose sums a register tile holds; divides kLanes
//
// Tiles of c are kTileRows x kPanel (three vectors wide). Three strips of b, kDepth deep, stay in
// the first cache while all rows of the block pass by.

#include "lathe/kernels/gemm_blocked.h"

namespace lathe::kernels {

inline constexpr int kTileVectors = 3;

/// tile += sum over `units` units of one chain per element.
template <class P, int kRows, int kVectors>
LATHE_INLINE void one_chain(float* tile, const float* a, const float* b, i64 b_strip, i64 units) {
  using V = typename P::V;
  typename V::Reg acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      acc[r][v] = V::load(tile + (r * kTileVectors + v) * V::kLanes);
  for (i64 u = 0; u < units; ++u, a += V::kLanes, b += V::kLanes) {
    typename V::Reg y[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) y[v] = V::load(b + v * b_strip);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const typename V::Reg x = V::broadcast(a + r);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) acc[r][v] = P::Step::apply(acc[r][v], x, y[v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      V::store(tile + (r * kTileVectors + v) * V::kLanes, acc[r][v]);
}

/// tile += sum over `groups` groups of an even and an odd chain per element.
template <class P, int kRows, int kVectors>
LATHE_INLINE void two_chains(float* tile, const float* a, const float* b, i64 b_strip, i64 groups) {
  using V = typename P::V;
  using Reg = typename V::Reg;
  for (i64 g = 0; g < groups; ++g) {
    // The sums have their place in the first cache: the compiler would move them to registers that
    // the chains need, and spill.
    asm volatile("" : "+r"(tile));
    Reg half[2][kRows][kVectors];
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h)
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) half[h][r][v] = V::zero();
    for (i64 u = 0; u < P::kGroupUnits; u += 2)
#pragma GCC unroll 2
      for (int h = 0; h < 2; ++h, a += V::kLanes, b += V::kLanes) {
        Reg y[kVectors];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) y[v] = V::load(b + v * b_strip);
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const Reg x = V::broadcast(a + r);
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) half[h][r][v] = P::Step::apply(half[h][r][v], x, y[v]);
        }
      }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        float* t = tile + (r * kTileVectors + v) * V::kLanes;
        V::store(t, V::add(V::load(t), V::add(half[0][r][v], half[1][r][v])));
      }
  }
}

// Apart from its caller, whose constants would take registers from the inner loop.
template <class P, int kRows, int kVectors>
[[gnu::noinline]] void extend_tile(float* tile, const float* a, const float* b, i64 b_strip,
                                   i64 depth) {
  if constexpr (P::kPaired)
    two_chains<P, kRows, kVectors>(tile, a, b, b_strip, pieces_of(depth, kGroup));
  else
    one_chain<P, kRows, kVectors>(tile, a, b, b_strip, depth);
}

/// Extends the sums of a tile of which `rows` x `vectors` are wanted.
template <class P>
void extend(float* tile, const float* a, const float* b, i64 b_strip, i64 depth, i64 rows,
            i64 vectors) {
  constexpr int kAll = P::kTileRows;
  if (rows > 1) {
    if (vectors == 3) return extend_tile<P, kAll, 3>(tile, a, b, b_strip, depth);
    if (vectors == 2) return extend_tile<P, kAll, 2>(tile, a, b, b_strip, depth);
    return extend_tile<P, kAll, 1>(tile, a, b, b_strip, depth);
  }
  if (vectors == 3) return extend_tile<P, 1, 3>(tile, a, b, b_strip, depth);
  if (vectors == 2) return extend_tile<P, 1, 2>(tile, a, b, b_strip, depth);
  extend_tile<P, 1, 1>(tile, a, b, b_strip, depth);
}

/// The block's tiles of c lie in the scratch, panel by panel, rows following one another, with room
/// behind them for one panel of b, kDepth deep.
template <class P>
void outer_block(const Block& k, const Operand& b, std::byte* scratch) {
  constexpr i64 kWide = P::kPanel, kTile = P::kTileRows * kWide;
  auto* tiles = reinterpret_cast<float*>(scratch);
  const i64 down = pieces_of(k.rows, P::kTileRows), across = pieces_of(k.cols, kWide);
  std::byte* const packed = scratch + round_up(down * across * kTile * 4, 64);
  for (i64 depth = 0; depth < k.depth; depth += P::kDepth) {
    const i64 deep = least(P::kDepth, k.depth - depth), skip = depth / kGroup * P::kGroupBytes;
    for (i64 j = 0; j < across; ++j) {
      const i64 col = j * kWide, cols = least(kWide, k.cols - col);
      const i64 strips = pieces_of(cols, P::kLanes);
      const std::byte* y = k.b ? k.b + col / P::kLanes * k.strip_bytes + skip : packed;
      const i64 y_strip = k.b ? k.strip_bytes : P::kDepth / kGroup * P::kGroupBytes;
      if (!k.b)
        pack_strips<P, false>(packed, y_strip, strips, b, k.first_col + col, k.first_k + depth,
                              deep);
      for (i64 i = 0; i < down; ++i) {
        const i64 row = i * P::kTileRows, rows = least(P::kTileRows, k.rows - row);
        float* tile = tiles + (j * down + i) * kTile;
        if (depth == 0)
          start_tile<typename P::V>(tile, kWide, P::kTileRows, k.window, row, rows, col, cols);
        const std::byte* x = k.a + row / P::kLanes * k.strip_bytes + skip;
        extend<P>(tile, reinterpret_cast<const float*>(x) + row % P::kLanes,
                  reinterpret_cast<const float*>(y), y_strip / 4, deep, rows, strips);
        if (depth + deep == k.depth)
          finish_tile<typename P::V>(k.window, row, rows, col, cols, tile, kWide);
      }
    }
  }
}

}  // namespace lathe::kernels
