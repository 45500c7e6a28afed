#pragma once
// The products of attention in tiles: sixteen rows by a group of 32 on the left, a group by sixteen
// columns on the right, each 1 KB on its own, extending sixteen rows of a panel of the result.
//
// Tiles is HardwareTiles, or in tests a model of it in plain C++.

#include "lathe/kernels/attention_tiles.h"
#include "lathe/kernels/avx512/attention_simd.h"
#include "lathe/kernels/avx512/simd.h"
#include "lathe/kernels/avx512bf16/word_pairs.h"

namespace lathe::kernels {

template <class Tiles>
struct TileProducts {
  using L = F16;
  using Scalar = float;
  using Left = bf16;
  using Right = u32;
  static constexpr i64 kWord = 2, kTileSize = 16 * kSumGroup;  // elements of an operand's tile

  LATHE_INLINE static void put_left(bf16* a, i64 lda, i64 r, i64 k, F16 x) {
    bf16* tile = a + r / 16 * 16 * lda + k / kSumGroup * kTileSize;
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(tile + r % 16 * kSumGroup + k % kSumGroup),
                        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x.v)));
  }
  LATHE_INLINE static void put_right(u32* panel, i64 k, const F16* x) {
    u32* to = panel + k / kWord * kLanes;
    store_dwords(to, word_pairs(x[1], x[0]));
    store_dwords(to + kLanes, word_pairs(x[3], x[2]));
  }
  LATHE_INLINE static void transpose(float* t) { transpose_floats(t); }

  /// Computes whole tiles of sixteen rows: a and c have room for m rounded up to that.
  void multiply(float* c, i64 c_panel, bool add, const bf16* a, i64 lda, const u32* b, i64 b_panel,
                i64 m, i64 n, i64 k) {
    for (i64 i = 0; i < m; i += 32)
      for (i64 j = 0; j < n / kLanes; ++j) {
        float* to = c + i * kLanes + j * c_panel;
        if (i + 16 < m)
          extend<true>(to, add, a + i * lda, lda, b + j * b_panel, k);
        else
          extend<false>(to, add, a + i * lda, lda, b + j * b_panel, k);
      }
  }

 private:
  /// One tile of the result, or two, one below the other, with one register for either operand: no
  /// more registers alive than that (tile.h).
  template <bool kTwo>
  LATHE_INLINE void extend(float* c, bool add, const bf16* a, i64 lda, const u32* b, i64 k) {
    float* below = c + 16 * kLanes;
    if (add) {
      tiles_.template load<0>(c);
      if (kTwo) tiles_.template load<1>(below);
    } else {
      tiles_.template zero<0>();
      if (kTwo) tiles_.template zero<1>();
    }
    for (i64 g = 0; g < k / kSumGroup; ++g) {
      tiles_.template load<3>(b + g * kTileSize / kWord);
      tiles_.template load<2>(a + g * kTileSize);
      tiles_.template dot<0, 2, 3>();
      if (kTwo) {
        tiles_.template load<2>(a + 16 * lda + g * kTileSize);
        tiles_.template dot<1, 2, 3>();
      }
    }
    tiles_.template store<0>(c);
    if (kTwo) tiles_.template store<1>(below);
  }

  Tiles tiles_;
};

}  // namespace lathe::kernels
