#pragma once
// The products of attention by fused multiply-adds of sixteen lanes: one row element broadcast,
// against sixteen columns.

#include "lathe/kernels/attention_tiles.h"

namespace lathe::kernels {

/// How a back end's registers are shared out: rows x panels of one microkernel.
template <i64 kRows_, i64 kPanels_>
struct Block {
  static constexpr i64 kRows = kRows_, kPanels = kPanels_;
};

/// kGroups: operands rounded to BF16 and summed in groups of 32, even and odd apart; otherwise one
/// ascending chain of the lanes' own precision.
template <class L_, bool kGroups, class B>
struct FmaProducts {
  using L = L_;
  using Scalar = typename L::Scalar;
  using Left = Scalar;
  using Right = Scalar;
  static constexpr i64 kWord = 1;

  LATHE_INLINE static L rounded(L x) {
    if constexpr (kGroups) {
      bf16 narrow[kLanes];
      x.store(narrow);
      return L::load(narrow);
    } else {
      return x;
    }
  }
  LATHE_INLINE static void put_left(Left* row, i64 k, L x) { rounded(x).store(row + k); }
  LATHE_INLINE static void put_right(Right* panel, i64 k, const L* x) {
    for (i64 i = 0; i < 4; ++i) rounded(x[i]).store(panel + (k + i) * kLanes);
  }
  LATHE_INLINE static void transpose(Scalar* t) {
    for (i64 i = 0; i < kLanes; ++i)
      for (i64 j = 0; j < i; ++j) {
        const Scalar x = t[i * kLanes + j];
        t[i * kLanes + j] = t[j * kLanes + i];
        t[j * kLanes + i] = x;
      }
  }

  /// One microkernel: R rows by N panels of c.
  template <i64 R, i64 N>
  static void tile(Scalar* c, i64 ldc, bool add, const Left* a, i64 lda, const Right* b, i64 panel,
                   i64 k) {
    L acc[R][N];
#pragma GCC unroll 8
    for (i64 i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (i64 j = 0; j < N; ++j)
        acc[i][j] = add ? L::load(c + i * ldc + j * kLanes) : L::broadcast(0);
    if constexpr (kGroups) {
      for (i64 g = 0; g < k; g += kGroup) add_group<R, N>(acc, a + g, lda, b + g * kLanes, panel);
    } else {
      for (i64 g = 0; g < k; ++g) step<R, N>(acc, a + g, lda, b + g * kLanes, panel);
    }
#pragma GCC unroll 8
    for (i64 i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (i64 j = 0; j < N; ++j) acc[i][j].store(c + i * ldc + j * kLanes);
  }
  template <i64 R, i64 N>
  LATHE_INLINE static void step(L (&acc)[R][N], const Left* a, i64 lda, const Right* b, i64 panel) {
    L column[N];
#pragma GCC unroll 4
    for (i64 j = 0; j < N; ++j) column[j] = L::load(b + j * panel);
#pragma GCC unroll 8
    for (i64 i = 0; i < R; ++i) {
      const L row = L::broadcast(a[i * lda]);
#pragma GCC unroll 4
      for (i64 j = 0; j < N; ++j) acc[i][j] = fma(row, column[j], acc[i][j]);
    }
  }
  template <i64 R, i64 N>
  LATHE_INLINE static void add_group(L (&acc)[R][N], const Left* a, i64 lda, const Right* b,
                                     i64 panel) {
    L even[R][N], odd[R][N];
#pragma GCC unroll 8
    for (i64 i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (i64 j = 0; j < N; ++j) even[i][j] = odd[i][j] = L::broadcast(0);
    for (i64 k = 0; k < kGroup; k += 2) {
      step<R, N>(even, a + k, lda, b + k * kLanes, panel);
      step<R, N>(odd, a + k + 1, lda, b + (k + 1) * kLanes, panel);
    }
#pragma GCC unroll 8
    for (i64 i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (i64 j = 0; j < N; ++j) acc[i][j] = acc[i][j] + (even[i][j] + odd[i][j]);
  }

  template <i64 R>
  LATHE_INLINE static void rows(Scalar* c, i64 ldc, bool add, const Left* a, i64 lda,
                                const Right* b, i64 panel, i64 n, i64 k) {
    i64 j = 0;
    for (; j + B::kPanels * kLanes <= n; j += B::kPanels * kLanes)
      tile<R, B::kPanels>(c + j, ldc, add, a, lda, b + j / kLanes * panel, panel, k);
    for (; j < n; j += kLanes)
      tile<R, 1>(c + j, ldc, add, a, lda, b + j / kLanes * panel, panel, k);
  }
  static void multiply(Scalar* c, i64 ldc, bool add, const Left* a, i64 lda, const Right* b,
                       i64 panel, i64 m, i64 n, i64 k) {
    i64 i = 0;
    for (; i + B::kRows <= m; i += B::kRows)
      rows<B::kRows>(c + i * ldc, ldc, add, a + i * lda, lda, b, panel, n, k);
    for (; i < m; ++i) rows<1>(c + i * ldc, ldc, add, a + i * lda, lda, b, panel, n, k);
  }
};

}  // namespace lathe::kernels
