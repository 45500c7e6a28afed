#pragma once
// The products of attention as outer products of sixteen lanes: one word of a row broadcast,
// against sixteen columns.

#include "lathe/kernels/attention_tiles.h"

namespace lathe::kernels {

/// Rows and panels of one microkernel, as many as a back end's registers hold.
template <i64 kRows_, i64 kPanels_>
struct RegisterTile {
  static constexpr i64 kRows = kRows_, kPanels = kPanels_;
  static_assert(kPanels == 1 || kPanels == 2);
};

/// multiply() for W, which says what a word is: its left and right types as in attention_tiles.h,
/// row(p) and column(p), which load one word broadcast and sixteen words, and multiply_add(row,
/// column, acc). kGroups: in groups of 32, even and odd words apart; otherwise one ascending chain.
template <class W, bool kGroups, class Tile>
struct OuterProducts : W {
  using typename W::L;
  using typename W::Left;
  using typename W::Right;
  using typename W::Scalar;
  using W::kWord;

  void multiply(Scalar* c, i64 c_panel, bool add, const Left* a, i64 lda, const Right* b,
                i64 b_panel, i64 m, i64 n, i64 k) {
    const i64 whole = m / Tile::kRows * Tile::kRows;
    for (i64 i = 0; i < whole; i += Tile::kRows)
      rows<Tile::kRows>(c + i * kLanes, c_panel, add, a + i * lda, lda, b, b_panel, n, k);
    for (i64 i = whole; i < m; ++i)
      rows<1>(c + i * kLanes, c_panel, add, a + i * lda, lda, b, b_panel, n, k);
  }

 private:
  template <i64 R>
  static void rows(Scalar* c, i64 c_panel, bool add, const Left* a, i64 lda, const Right* b,
                   i64 b_panel, i64 n, i64 k) {
    const i64 panels = n / kLanes, whole = panels / Tile::kPanels * Tile::kPanels;
    for (i64 j = 0; j < whole; j += Tile::kPanels)
      tile<R, Tile::kPanels>(c + j * c_panel, c_panel, add, a, lda, b + j * b_panel, b_panel, k);
    if (whole < panels)
      tile<R, 1>(c + whole * c_panel, c_panel, add, a, lda, b + whole * b_panel, b_panel, k);
  }

  /// R rows by N panels of c, in registers throughout.
  template <i64 R, i64 N>
  LATHE_INLINE static void tile(Scalar* c, i64 c_panel, bool add, const Left* a, i64 lda,
                                const Right* b, i64 b_panel, i64 k) {
    L acc[R][N];
#pragma GCC unroll 8
    for (i64 i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (i64 j = 0; j < N; ++j)
        acc[i][j] = add ? L::load(c + i * kLanes + j * c_panel) : L::broadcast(0);
    if constexpr (kGroups) {
      for (i64 g = 0; g < k; g += kSumGroup)
        add_group<R, N>(acc, a + g, lda, b + g / kWord * kLanes, b_panel);
    } else {
      for (i64 w = 0; w < k / kWord; ++w)
        step<R, N>(acc, a + w * kWord, lda, b + w * kLanes, b_panel);
    }
#pragma GCC unroll 8
    for (i64 i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (i64 j = 0; j < N; ++j) acc[i][j].store(c + i * kLanes + j * c_panel);
  }

  template <i64 R, i64 N>
  LATHE_INLINE static void add_group(L (&acc)[R][N], const Left* a, i64 lda, const Right* b,
                                     i64 panel) {
    L even[R][N], odd[R][N];
#pragma GCC unroll 8
    for (i64 i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (i64 j = 0; j < N; ++j) even[i][j] = odd[i][j] = L::broadcast(0);
#pragma GCC unroll 8
    for (i64 w = 0; w < kSumGroup / kWord; w += 2) {
      step<R, N>(even, a + w * kWord, lda, b + w * kLanes, panel);
      step<R, N>(odd, a + (w + 1) * kWord, lda, b + (w + 1) * kLanes, panel);
    }
#pragma GCC unroll 8
    for (i64 i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (i64 j = 0; j < N; ++j) acc[i][j] = acc[i][j] + (even[i][j] + odd[i][j]);
  }

  template <i64 R, i64 N>
  LATHE_INLINE static void step(L (&acc)[R][N], const Left* a, i64 lda, const Right* b, i64 panel) {
    typename W::Word column[N];
#pragma GCC unroll 4
    for (i64 j = 0; j < N; ++j) column[j] = W::column(b + j * panel);
#pragma GCC unroll 8
    for (i64 i = 0; i < R; ++i) {
      const typename W::Word row = W::row(a + i * lda);
#pragma GCC unroll 4
      for (i64 j = 0; j < N; ++j) acc[i][j] = W::multiply_add(row, column[j], acc[i][j]);
    }
  }
};

/// A word is one element, in the lanes' own precision; kRounded: of BF16's values.
template <class L_, bool kRounded>
struct PlainWords {
  using L = L_;
  using Word = L;
  using Scalar = typename L::Scalar;
  using Left = Scalar;
  using Right = Scalar;
  static constexpr i64 kWord = 1;

  LATHE_INLINE static L rounded(L x) {
    if constexpr (kRounded) {
      bf16 narrow[kLanes];
      x.store(narrow);
      return L::load(narrow);
    } else {
      return x;
    }
  }
  LATHE_INLINE static void put_left(Left* a, i64 lda, i64 r, i64 k, L x) {
    rounded(x).store(a + r * lda + k);
  }
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
  LATHE_INLINE static Word row(const Left* p) { return L::broadcast(*p); }
  LATHE_INLINE static Word column(const Right* p) { return L::load(p); }
  LATHE_INLINE static L multiply_add(Word row, Word column, L acc) { return fma(row, column, acc); }
};

}  // namespace lathe::kernels
