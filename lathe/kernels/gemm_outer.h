#pragma once
// Blocks of c by outer products in vector registers: a column of a times a row of b, element by
// element of the sum, so that each sum is one chain in the order of gemm.h.
//
// A packing P, from which OuterProduct makes what gemm_blocked.h asks for, has its constants and
//   V                vectors of kLanes floats; Step::apply(acc, a, b) takes one packed unit of 4
//                    bytes a lane further
//   kPaired          bf16: units go alternately to two chains (even and odd elements), which are
//                    folded into the sum at the end of each group
//   kGroupUnits      units of a group
//   kTileRows        rows of c whose sums a register tile holds; divides kLanes
//   pack(out, from, stride, along)   packs either operand
//
// Tiles of c are kTileRows x kPanel (three vectors wide). Three strips of b, kDepth deep (a chunk,
// where sums are scaled after each), stay in the first cache while all rows of the block pass by.

#include "lathe/kernels/gemm_blocked.h"
#include "lathe/kernels/gemm_scales.h"
#include "lathe/kernels/gemm_window.h"

namespace lathe::kernels {

inline constexpr int kTileVectors = 3;

/// A tile of sums. Where a step is a chunk the tile holds but that, from zero, and the chunk is
/// scaled and added to total, which is laid out like the tile.
struct Sums {
  float* tile;
  float* total;
  const float *row_scales, *col_scales;  // of the tile's rows and columns
};

template <class P, int kRows, int kVectors>
LATHE_INLINE void add_chunk(const Sums& s, const typename P::V::Reg (&sums)[kRows][kVectors]) {
  using V = typename P::V;
  typename V::Reg of_cols[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) of_cols[v] = V::load(s.col_scales + v * V::kLanes);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    const typename V::Reg of_row = V::broadcast(s.row_scales + r);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      float* const at = s.total + (r * kTileVectors + v) * V::kLanes;
      V::store(at, V::fma(sums[r][v], V::mul(of_row, of_cols[v]), V::load(at)));
    }
  }
}

/// Extends sums by `units` units of one chain per element.
template <class P, bool kChunk, int kRows, int kVectors>
LATHE_INLINE void one_chain(const Sums& s, const float* a, const float* b, i64 b_strip, i64 units) {
  using V = typename P::V;
  typename V::Reg acc[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      acc[r][v] = kChunk ? V::zero() : V::load(s.tile + (r * kTileVectors + v) * V::kLanes);
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
  if (kChunk) return add_chunk<P>(s, acc);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      V::store(s.tile + (r * kTileVectors + v) * V::kLanes, acc[r][v]);
}

/// Adds a group's even and odd chains to the sums.
template <class P, bool kChunk, int kRows, int kVectors>
LATHE_INLINE void fold(const Sums& s, float* tile, typename P::V::Reg (&half)[2][kRows][kVectors],
                       bool first, bool last) {
  using V = typename P::V;
  // Not the chains alone even where there is nothing to add them to: -0 must become +0.
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const typename V::Reg before =
          kChunk && first ? V::zero() : V::load(tile + (r * kTileVectors + v) * V::kLanes);
      half[0][r][v] = V::add(before, V::add(half[0][r][v], half[1][r][v]));
    }
  if (kChunk && last) return add_chunk<P>(s, half[0]);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      V::store(tile + (r * kTileVectors + v) * V::kLanes, half[0][r][v]);
}

/// Extends sums by `groups` groups of an even and an odd chain per element.
template <class P, bool kChunk, int kRows, int kVectors>
LATHE_INLINE void two_chains(const Sums& s, const float* a, const float* b, i64 b_strip,
                             i64 groups) {
  using V = typename P::V;
  using Reg = typename V::Reg;
  float* tile = s.tile;
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
    fold<P, kChunk>(s, tile, half, g == 0, g + 1 == groups);
  }
}

// Apart from its caller, whose constants would take registers from the inner loop.
template <class P, bool kChunk, int kRows, int kVectors>
[[gnu::noinline]] void extend_tile(const Sums& s, const float* a, const float* b, i64 b_strip,
                                   i64 depth) {
  if constexpr (P::kPaired)
    two_chains<P, kChunk, kRows, kVectors>(s, a, b, b_strip, pieces_of(depth, kGroup));
  else
    one_chain<P, kChunk, kRows, kVectors>(s, a, b, b_strip, depth);
}

/// Extends the sums of a tile of which `rows` x `vectors` are wanted.
template <class P, bool kChunk>
void extend(const Sums& s, const float* a, const float* b, i64 b_strip, i64 depth, i64 rows,
            i64 vectors) {
  constexpr int kAll = P::kTileRows;
  if (rows > 1) {
    if (vectors == 3) return extend_tile<P, kChunk, kAll, 3>(s, a, b, b_strip, depth);
    if (vectors == 2) return extend_tile<P, kChunk, kAll, 2>(s, a, b, b_strip, depth);
    return extend_tile<P, kChunk, kAll, 1>(s, a, b, b_strip, depth);
  }
  if (vectors == 3) return extend_tile<P, kChunk, 1, 3>(s, a, b, b_strip, depth);
  if (vectors == 2) return extend_tile<P, kChunk, 1, 2>(s, a, b, b_strip, depth);
  extend_tile<P, kChunk, 1, 1>(s, a, b, b_strip, depth);
}

/// What a worker holds beside the block's tiles.
template <class P>
struct OuterScratch {
  static constexpr i64 kTile = P::kTileRows * P::kPanel;
  alignas(64) float chunk[kTile];
  alignas(64) float row_scales[P::kRows], col_scales[P::kCols];
};

/// A tile of c in one pass.
template <class P>
LATHE_INLINE void step_tile(float* tile, OuterScratch<P>& at, const Block& k, const Pass& t,
                            i64 row, i64 col, const std::byte* y, i64 y_strip) {
  using V = typename P::V;
  constexpr i64 kWide = P::kPanel;
  const i64 rows = least(P::kTileRows, k.rows - row), cols = least(kWide, k.cols - col);
  const i64 vectors = pieces_of(cols, P::kLanes);
  const std::byte* x = k.a + row / P::kLanes * k.strip_bytes + t.begin / kGroup * P::kGroupBytes;
  const float* const from_a = reinterpret_cast<const float*>(x) + row % P::kLanes;
  const auto* const from_b = reinterpret_cast<const float*>(y);
  const Sums s{t.chunk ? at.chunk : tile, tile, at.row_scales + row, at.col_scales + col};
  if (t.first) start_tile<V>(tile, kWide, P::kTileRows, k.window.from, row, rows, col, cols);
  if (t.chunk)
    extend<P, true>(s, from_a, from_b, y_strip / 4, t.depth, rows, vectors);
  else
    extend<P, false>(s, from_a, from_b, y_strip / 4, t.depth, rows, vectors);
  if (t.last)
    finish_tile<V>(k.window, row, rows, col, cols, tile, kWide, s.row_scales, s.col_scales);
}

/// The block's tiles of c lie in the scratch, panel by panel, rows following one another, with room
/// behind them for one panel of b, one step deep.
template <class P>
void outer_block(const Block& k, const Operand& a, const Operand& b, std::byte* scratch) {
  constexpr i64 kWide = P::kPanel, kTile = OuterScratch<P>::kTile;
  auto& at = *reinterpret_cast<OuterScratch<P>*>(scratch);
  auto* const tiles = reinterpret_cast<float*>(scratch + sizeof at);
  const i64 down = pieces_of(k.rows, P::kTileRows), across = pieces_of(k.cols, kWide);
  auto* const packed =
      reinterpret_cast<std::byte*>(tiles) + round_up(down * across * kTile * 4, 64);
  const i64 step = k.chunk > 0 ? k.chunk : P::kDepth;
  for (i64 begin = 0; begin < k.depth; begin += step) {
    const Pass t(k, begin, step);
    if (t.scales) {
      expand_scales(at.row_scales, P::kRows, a, k.first_row, k.rows, k.first_k + begin);
      expand_scales(at.col_scales, P::kCols, b, k.first_col, k.cols, k.first_k + begin);
    }
    for (i64 j = 0; j < across; ++j) {
      const i64 col = j * kWide, strips = pieces_of(least(kWide, k.cols - col), P::kLanes);
      const std::byte* y = packed;
      i64 y_strip = pieces_of(step, kGroup) * P::kGroupBytes;
      if (k.b) {
        y = k.b + col / P::kLanes * k.strip_bytes + begin / kGroup * P::kGroupBytes;
        y_strip = k.strip_bytes;
      } else {
        pack_strips<P, false>(packed, y_strip, strips, b, k.first_col + col, k.first_k + begin,
                              t.depth);
      }
      for (i64 i = 0; i < down; ++i)
        step_tile<P>(tiles + (j * down + i) * kTile, at, k, t, i * P::kTileRows, col, y, y_strip);
    }
  }
}

/// A back end (gemm_blocked.h) of outer products in the packing P.
template <class P>
struct OuterProduct : P {
  using T = typename P::Element;
  LATHE_INLINE static void pack_a(std::byte* out, const T* x, i64 stride, Along along) {
    P::pack(out, x, stride, along);
  }
  LATHE_INLINE static void pack_b(std::byte* out, const T* x, i64 stride, Along along) {
    P::pack(out, x, stride, along);
  }
  static void block(const Block& k, const Operand& a, const Operand& b, std::byte* scratch) {
    outer_block<OuterProduct>(k, a, b, scratch);
  }
};

/// Operands stored as f32 in the packing F32, as bf16 in Bf16; all else is left to `otherwise`.
template <class F32, class Bf16>
LATHE_INLINE void outer_product(Queue& q, const Tensor& c, const Operand& a, const Operand& b,
                                const Epilogue& e, decltype(GemmKernels::product) otherwise) {
  if (chunks_fit(a, b)) {
    if (a.data.type == DType::f32) return product_by<OuterProduct<F32>>(q, c, a, b, e);
    if (a.data.type == DType::bf16) return product_by<OuterProduct<Bf16>>(q, c, a, b, e);
  }
  otherwise(q, c, a, b, e);
}

}  // namespace lathe::kernels
