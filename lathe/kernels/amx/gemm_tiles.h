#pragma once
// Products of BF16 operands in tiles. One instruction extends 16 x 16 sums by a group of 32: what
// it computes is the order of gemm.h.
//
// Tiles is HardwareTiles, or in tests a model of it in plain C++, so that all but the instructions
// themselves is checked on any machine.
//
// The inner loop extends two tiles of c, one below the other, with one register for a and one for
// b: as fast as the usual 2 x 2 on a core that is all ours, twice as fast where the core's other
// hyperthread is awake (tile.h). 32 rows of a, kDepth deep, stay in the first cache while the
// block's strips of b pass by from the second; meanwhile the next kDepth of both are fetched into
// the second.

#include "lathe/kernels/avx512/gemm_simd.h"
#include "lathe/kernels/gemm_blocked.h"
#include "lathe/kernels/gemm_scales.h"
#include "lathe/kernels/gemm_window.h"

namespace lathe::kernels {

template <class Tiles>
struct TileProduct {
  using Element = bf16;
  static constexpr i64 kLanes = 16, kGroupBytes = 1024, kPanel = 16;
  static constexpr i64 kRows = 256, kCols = 384, kDepth = 256;
  static constexpr i64 kTileFloats = 256, kPairRows = 32;

  /// Two elements of each of 16 columns of a matrix, as dwords.
  LATHE_INLINE static __m512i pairs(const bf16* row, i64 stride) {
    return _mm512_or_si512(load_words(row), _mm512_slli_epi32(load_words(row + stride), 16));
  }

  /// Row by row.
  LATHE_INLINE static void pack_a(std::byte* out, const bf16* x, i64 stride, Along along) {
    if (along == Along::cols) {
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) store_dwords(out + i * 64, load_dwords(x + i * stride));
      return;
    }
    __m512i v[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) v[i] = pairs(x + 2 * i * stride, stride);
    transpose_16x16(v);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) store_dwords(out + i * 64, v[i]);
  }

  /// Pair of elements by pair of elements.
  LATHE_INLINE static void pack_b(std::byte* out, const bf16* x, i64 stride, Along along) {
    if (along == Along::rows) {
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) store_dwords(out + i * 64, pairs(x + 2 * i * stride, stride));
      return;
    }
    __m512i v[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) v[i] = load_dwords(x + i * stride);
    transpose_16x16(v);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) store_dwords(out + i * 64, v[i]);
  }

  /// What the inner loop fetches ahead: 128 bytes from each group of the next depth; null: nothing.
  struct Ahead {
    const std::byte *a, *b;
  };

  /// Extends one or two tiles of c, `tile` and the one behind it, by `groups` groups.
  template <bool kTwo>
  LATHE_INLINE static void extend(Tiles& tiles, float* tile, bool from_zero, const std::byte* a,
                                  i64 a_strip, const std::byte* b, i64 groups, Ahead ahead) {
    if (from_zero) {
      tiles.template zero<0>();
      if (kTwo) tiles.template zero<1>();
    } else {
      tiles.template load<0>(tile);
      if (kTwo) tiles.template load<1>(tile + kTileFloats);
    }
    for (i64 g = 0; g < groups; ++g, a += kGroupBytes, b += kGroupBytes) {
      tiles.template load<3>(b);
      tiles.template load<2>(a);
      tiles.template dot<0, 2, 3>();
      if (kTwo) {
        tiles.template load<2>(a + a_strip);
        tiles.template dot<1, 2, 3>();
      }
      fetch(ahead.a, g);
      fetch(ahead.b, g);
    }
    tiles.template store<0>(tile);
    if (kTwo) tiles.template store<1>(tile + kTileFloats);
  }
  LATHE_INLINE static void fetch(const std::byte* from, i64 group) {
    if (!from) return;
    const auto* p = reinterpret_cast<const char*>(from + group * kGroupBytes);
    _mm_prefetch(p, _MM_HINT_T1);
    _mm_prefetch(p + 64, _MM_HINT_T1);
  }

  /// What a worker holds beside the block's tiles.
  struct Scratch {
    alignas(64) float spare[2 * kTileFloats];  // sums of one chunk
    alignas(64) float row_scales[kRows], col_scales[kCols];
  };

  /// The block's tiles of c lie in the scratch, 1 KB each, pair of tile rows by pair of tile rows.
  static void block(const Block& k, const Operand& a, const Operand& b, std::byte* scratch) {
    Tiles tiles;
    auto& at = *reinterpret_cast<Scratch*>(scratch);
    auto* sums = reinterpret_cast<float*>(scratch + sizeof at);
    const i64 step = k.chunk > 0 ? k.chunk : kDepth;
    for (i64 begin = 0; begin < k.depth; begin += step) {
      const Pass t(k, begin, step);
      if (t.scales) {
        expand_scales(at.row_scales, kRows, a, k.first_row, k.rows, k.first_k + begin);
        expand_scales(at.col_scales, kCols, b, k.first_col, k.cols, k.first_k + begin);
      }
      for (i64 i = 0; i * kPairRows < k.rows; ++i)
        row_of_tiles(tiles, at, k, t, i, sums + i * 2 * kTileFloats * (kCols / kLanes));
    }
  }

  /// 32 rows of the block.
  LATHE_INLINE static void row_of_tiles(Tiles& tiles, Scratch& at, const Block& k, const Pass& t,
                                        i64 i, float* sums) {
    const i64 row = i * kPairRows, rows = least(kPairRows, k.rows - row);
    const i64 groups = pieces_of(t.depth, kGroup), skip = t.begin / kGroup * kGroupBytes;
    const std::byte* a = k.a + row / kLanes * k.strip_bytes + skip;
    const bool zero = t.chunk || (t.first && k.window.from.empty());
    // Whole groups follow only where the next step is a whole one.
    const bool fetching = k.depth - t.begin - t.depth >= t.depth;
    for (i64 j = 0; j * kLanes < k.cols; ++j) {
      const i64 col = j * kLanes, cols = least(kLanes, k.cols - col);
      const std::byte* b = k.b + j * k.strip_bytes + skip;
      float* tile = sums + j * 2 * kTileFloats;
      if (t.first && (t.chunk || !zero))
        start_tile<Zmm>(tile, kLanes, kPairRows, k.window.from, row, rows, col, cols);
      Ahead ahead{};
      if (fetching && j < 16)
        ahead.a =
            a + (j / 8) * (rows > kLanes ? k.strip_bytes : 0) + groups * kGroupBytes + j % 8 * 128;
      if (fetching) ahead.b = b + groups * kGroupBytes + i * 128;
      float* const extended = t.chunk ? at.spare : tile;
      if (rows > kLanes)
        extend<true>(tiles, extended, zero, a, k.strip_bytes, b, groups, ahead);
      else
        extend<false>(tiles, extended, zero, a, k.strip_bytes, b, groups, ahead);
      const float *of_rows = at.row_scales + row, *of_cols = at.col_scales + col;
      if (t.chunk) add_scaled<Zmm, kLanes>(tile, at.spare, rows, of_rows, of_cols);
      if (t.last) finish_tile<Zmm>(k.window, row, rows, col, cols, tile, kLanes, of_rows, of_cols);
    }
  }
};

}  // namespace lathe::kernels
