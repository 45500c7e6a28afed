#pragma once
// What attention is cut into, and how a head's tokens are packed for its products. Written once, as
// templates over the products of a back end:
//
//   P::L, P::Scalar        lanes and their element
//   P::Left, P::Right      what a packed element of the left and a word of the right operand are
//   P::kWord               elements of the summed dim that one word of the right operand holds
//   put_left(a, lda, r, k, x)
//                          sixteen elements x at (r, k) of a left operand (rows, lda), rounded to
//                          the products' format; sixteen rows take 16 lda elements
//   put_right(b, k, x)     rows k..k+3 of a right operand's panel of sixteen columns (summed, 16)
//   transpose(t)           of a 16 x 16 block in place
//   p.multiply(c, c_panel, add, a, lda, b, b_panel, m, n, k)
//                          c (m, n) = [c +] a b in the order of gemm.h; n a multiple of 16, k of 32
//
// A P lives as long as a piece of work. Right operands and results lie in panels of sixteen
// columns, each with all its rows: c_panel and b_panel are the distances between two, in elements
// and words.
//
// What must not be seen must not be felt. A pair that is masked has weight zero, but zero times an
// infinity is not zero, and a tile's products sum over masked pairs too. So a token that holds
// anything not finite is packed as NaN where it makes scores (which the mask then replaces, row by
// row) and as zeros where it is summed over: whoever sees it gets NaN, nobody else gets anything.

#include <limits>

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/attention.h"
#include "lathe/kernels/lanes.h"
#include "lathe/kernels/math.h"

namespace lathe::kernels {

/// Products sum in groups of this (gemm.h), so tiles start and end on multiples of it.
inline constexpr i64 kSumGroup = 32;
/// Keys between two corrections of the running maximum, counted from token 0: part of the order.
inline constexpr i64 kKeyBlock = 128;
/// Rows of a result, queries in forward and keys in backward, and what lies between its panels.
inline constexpr i64 kTileRows = 32, kTilePanel = kTileRows * kLanes;
/// Queries of a piece of forward, and keys that are packed at a time.
inline constexpr i64 kQuerySpan = 512, kKeyChunk = 1024;
/// Queries of a tile of backward, and queries that are packed at a time.
inline constexpr i64 kBackQueries = 64, kBackChunk = 512;

LATHE_INLINE constexpr i64 round_up(i64 n, i64 to) { return (n + to - 1) / to * to; }
LATHE_INLINE constexpr i64 round_down(i64 n, i64 to) { return n / to * to; }
LATHE_INLINE constexpr i64 smaller(i64 a, i64 b) { return a < b ? a : b; }
LATHE_INLINE constexpr i64 larger(i64 a, i64 b) { return a > b ? a : b; }

/// Hands out a worker's scratch from its start; without memory it only counts.
struct Carve {
  std::byte* base;
  i64 used = 0;
  template <class T>
  LATHE_INLINE T* take(i64 n) {
    T* p = base ? reinterpret_cast<T*>(base + used) : nullptr;
    used += round_up(n * static_cast<i64>(sizeof(T)), 64);
    return p;
  }
};

/// Some tokens of one head as they lie in memory: `count` rows of `width` elements. Rows past
/// `count` and columns past `width` read as zero.
template <class T>
struct Head {
  const T* data;
  i64 stride, count, width;
};

/// The head of `columns` starting at `column` in rows [row, row + count).
template <class T>
LATHE_INLINE Head<T> head_of(const ConstTensor& x, i64 row, i64 count, i64 column, i64 width) {
  return {x.row<T>(row) + column, x.stride, count, width};
}

/// The first token that token t of a row of the batch sees.
LATHE_INLINE i64 first_seen(const i32* doc_start, i64 window, i64 t) {
  const i64 lo = doc_start[t];
  return window > 0 ? larger(lo, t - window + 1) : lo;
}

template <class P, class T>
LATHE_INLINE typename P::L load_head(const Head<T>& x, i64 t, i64 c) {
  const i64 n = x.width - c;
  if (t >= x.count || n <= 0) return P::L::broadcast(0);
  const T* p = x.data + t * x.stride + c;
  return n >= kLanes ? P::L::load(p) : P::L::load(p, n);
}

/// Asks for token t of a head ahead of its use: the rows of a head lie pages apart, where the
/// hardware does not follow.
template <class T>
LATHE_INLINE void fetch_token(const Head<T>& x, i64 t) {
  if (t >= x.count) return;
  const T* p = x.data + t * x.stride;
  for (i64 c = 0; c < x.width; c += 64 / static_cast<i64>(sizeof(T))) __builtin_prefetch(p + c);
  __builtin_prefetch(p + x.width - 1);
}
/// Tokens ahead that cover the latency of memory.
inline constexpr i64 kFetchAhead = 12;

/// Whether every element of token t is finite.
template <class P, class T>
bool is_finite(const Head<T>& x, i64 t) {
  using L = typename P::L;
  L z = L::broadcast(0);
  for (i64 c = 0; c < x.width; c += kLanes) z = fma(load_head<P>(x, t, c), L::broadcast(0), z);
  return z.sum() == 0;
}

/// What a token that is not finite is packed as.
enum class Spoilt : u8 { nan, zero };

/// `spoilt` may be null: then tokens are taken as they are.
template <class P, class T>
LATHE_INLINE typename P::L load_token(const Head<T>& x, i64 t, i64 c, const bool* spoilt,
                                      Spoilt as) {
  using Scalar = typename P::Scalar;
  if (spoilt && spoilt[t])
    return P::L::broadcast(as == Spoilt::nan ? std::numeric_limits<Scalar>::quiet_NaN()
                                             : Scalar{0});
  return load_head<P>(x, t, c);
}

/// Tokens [t0, t0 + n) as rows of a left operand that sums over the head's elements.
template <class P, class T>
void pack_left(typename P::Left* to, const Head<T>& x, i64 t0, i64 n, const bool* spoilt,
               Spoilt as) {
  const i64 depth = round_up(x.width, kSumGroup);
  for (i64 t = 0; t < n; ++t) {
    fetch_token(x, t0 + t + kFetchAhead);
    for (i64 c = 0; c < depth; c += kLanes)
      P::put_left(to, depth, t, c, load_token<P>(x, t0 + t, c, spoilt, as));
  }
}

/// A 16 x 16 block: tokens t.. by columns c.., transposed.
template <class P, class T>
LATHE_INLINE void load_transposed(typename P::Scalar* block, const Head<T>& x, i64 t, i64 c,
                                  const bool* spoilt, Spoilt as) {
  for (i64 i = 0; i < kLanes; ++i) load_token<P>(x, t + i, c, spoilt, as).store(block + i * kLanes);
  P::transpose(block);
}

/// Rows k..k+3 of a panel from a 16 x 16 block's rows r..r+3.
template <class P>
LATHE_INLINE void put_block_rows(typename P::Right* panel, i64 k, const typename P::Scalar* rows) {
  using L = typename P::L;
  const L x[4] = {L::load(rows), L::load(rows + kLanes), L::load(rows + 2 * kLanes),
                  L::load(rows + 3 * kLanes)};
  P::put_right(panel, k, x);
}

/// Tokens [t0, t0 + n) as columns of a right operand that sums over the head's elements.
template <class P, class T>
void pack_right_columns(typename P::Right* to, const Head<T>& x, i64 t0, i64 n, const bool* spoilt,
                        Spoilt as) {
  const i64 depth = round_up(x.width, kSumGroup);
  alignas(64) typename P::Scalar block[kLanes * kLanes];
  for (i64 t = 0; t < n; t += kLanes)
    for (i64 c = 0; c < depth; c += kLanes) {
      load_transposed<P>(block, x, t0 + t, c, spoilt, as);
      for (i64 i = 0; i < kLanes; i += 4)
        put_block_rows<P>(to + t * depth / P::kWord, c + i, block + i * kLanes);
    }
}

/// Tokens [t0, t0 + n) as rows of a right operand that sums over them; n a multiple of kSumGroup.
template <class P, class T>
void pack_right_rows(typename P::Right* to, const Head<T>& x, i64 t0, i64 n, const bool* spoilt,
                     Spoilt as) {
  using L = typename P::L;
  for (i64 c = 0; c < x.width; c += kLanes)
    for (i64 t = 0; t < n; t += 4) {
      const L rows[4] = {
          load_token<P>(x, t0 + t, c, spoilt, as), load_token<P>(x, t0 + t + 1, c, spoilt, as),
          load_token<P>(x, t0 + t + 2, c, spoilt, as), load_token<P>(x, t0 + t + 3, c, spoilt, as)};
      P::put_right(to + c * n / P::kWord, t, rows);
    }
}

/// The transpose of tokens [t0, t0 + n) as a left operand (width, n) that sums over tokens.
template <class P, class T>
void pack_left_transposed(typename P::Left* to, const Head<T>& x, i64 t0, i64 n, const bool* spoilt,
                          Spoilt as) {
  using L = typename P::L;
  alignas(64) typename P::Scalar block[kLanes * kLanes];
  for (i64 c = 0; c < x.width; c += kLanes)
    for (i64 t = 0; t < n; t += kLanes) {
      load_transposed<P>(block, x, t0 + t, c, spoilt, as);
      for (i64 i = 0; i < kLanes; ++i) P::put_left(to, n, c + i, t, L::load(block + i * kLanes));
    }
}

/// 0, 1, ... 15.
template <class L>
LATHE_INLINE L lane_numbers() {
  using Scalar = typename L::Scalar;
  const Scalar n[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return L::load(n);
}

}  // namespace lathe::kernels
