#pragma once
// What the families of row kernels share: loops over lanes, cutting into pieces, and the switch on
// element types. Everything is a template over the lane type, so that in a file of one instruction
// set, whose lanes are in an unnamed namespace, nothing here has a symbol that could be merged.

#include <type_traits>

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/lanes.h"

namespace lathe::kernels {

/// About this many elements make a piece: enough to outweigh handing it out, few enough for a
/// matrix to keep many threads busy.
inline constexpr i64 kPieceElements = 16384;

/// Columns of one piece of a column chain: what registers hold, and wide enough that a row brings
/// in several cache lines.
inline constexpr i64 kChainLanes = 8;
inline constexpr i64 kChainColumns = kChainLanes * kLanes;

LATHE_INLINE constexpr i64 ceil_div(i64 a, i64 b) { return (a + b - 1) / b; }
LATHE_INLINE constexpr i64 smaller(i64 a, i64 b) { return a < b ? a : b; }

/// f(i, n) for i = 0, 16, … below `count`: n is All{}, but a number for a last part.
template <class F>
LATHE_INLINE void for_lanes(i64 count, const F& f) {
  i64 i = 0;
  for (; i + kLanes <= count; i += kLanes) f(i, All{});
  if (i < count) f(i, count - i);
}

/// f(r) for each of R rows of C columns, some rows a piece.
template <Lanes L, class F>
LATHE_INLINE void for_rows(Queue& q, i64 R, i64 C, const F& f) {
  const i64 some = ceil_div(kPieceElements, C > 0 ? C : 1);
  for_pieces(q, ceil_div(R, some), [&](i64 piece, int) {
    const i64 end = smaller(R, (piece + 1) * some);
    for (i64 r = piece * some; r < end; ++r) f(r);
  });
}

/// f(r, begin, count) over parts of rows, each element once: long rows in several pieces, short
/// ones several to a piece. For what works on each element alone.
template <Lanes L, class F>
LATHE_INLINE void for_segments(Queue& q, i64 R, i64 C, const F& f) {
  if (C <= kPieceElements) return for_rows<L>(q, R, C, [&](i64 r) { f(r, i64{0}, C); });
  const i64 parts = ceil_div(C, kPieceElements);
  for_pieces(q, R * parts, [&](i64 piece, int) {
    const i64 begin = piece % parts * kPieceElements;
    f(piece / parts, begin, smaller(kPieceElements, C - begin));
  });
}

/// Rows that follow one another without a gap are as good as one long row.
template <class... T>
LATHE_INLINE void flatten(T&... tensors) {
  const bool whole = ((tensors.rows <= 1 || tensors.stride == tensors.cols) && ...);
  if (!whole) return;
  ((tensors.cols *= tensors.rows, tensors.rows = tensors.cols > 0 ? 1 : 0,
    tensors.stride = tensors.cols),
   ...);
}

/// f(begin, count) for blocks of kChainColumns columns: the owner of a column adds up all its rows.
template <Lanes L, class F>
LATHE_INLINE void for_column_blocks(Queue& q, i64 C, const F& f) {
  for_pieces(q, ceil_div(C, kChainColumns), [&](i64 piece, int) {
    const i64 begin = piece * kChainColumns;
    f(begin, smaller(kChainColumns, C - begin));
  });
}

/// Chains down the columns [begin, begin + count) of `Sums` rows of sums: for each row r ascending,
/// term(r, c, n, a) replaces the lanes a[0..Sums) at column c by what they become.
template <Lanes L, int Sums, class Term>
LATHE_INLINE void chain_rows(typename L::Scalar* const (&sums)[Sums], i64 begin, i64 count, i64 R,
                             const Term& term) {
  if (count == kChainColumns) {
    L acc[kChainLanes][Sums];
#pragma GCC unroll 8
    for (i64 j = 0; j < kChainLanes; ++j)
      for (int s = 0; s < Sums; ++s) acc[j][s] = L::load(sums[s] + begin + j * kLanes);
    for (i64 r = 0; r < R; ++r)
#pragma GCC unroll 8
      for (i64 j = 0; j < kChainLanes; ++j) term(r, begin + j * kLanes, All{}, acc[j]);
#pragma GCC unroll 8
    for (i64 j = 0; j < kChainLanes; ++j)
      for (int s = 0; s < Sums; ++s) acc[j][s].store(sums[s] + begin + j * kLanes);
    return;
  }
  for_lanes(count, [&](i64 i, auto n) {
    const i64 c = begin + i;
    L acc[Sums];
    for (int s = 0; s < Sums; ++s) acc[s] = L::load(sums[s] + c, n);
    for (i64 r = 0; r < R; ++r) term(r, c, n, acc);
    for (int s = 0; s < Sums; ++s) acc[s].store(sums[s] + c, n);
  });
}

template <class T>
struct Type {
  using type = T;
};

/// f(Type<T>) with T that of `t`. Lanes of double see only f64, lanes of float f32 and bf16.
template <Lanes L, class F>
LATHE_INLINE void with_type(DType t, const F& f) {
  if constexpr (std::is_same_v<typename L::Scalar, double>)
    f(Type<double>{});
  else if (t == DType::bf16)
    f(Type<bf16>{});
  else
    f(Type<float>{});
}

/// The same; lanes of double see all three.
template <Lanes L, class F>
LATHE_INLINE void with_any_type(DType t, const F& f) {
  if constexpr (std::is_same_v<typename L::Scalar, double>)
    if (t == DType::f64) return f(Type<double>{});
  if (t == DType::bf16)
    f(Type<bf16>{});
  else
    f(Type<float>{});
}

LATHE_INLINE bool is_f64(const ConstTensor& t) { return t.type == DType::f64; }
LATHE_INLINE bool is_f64(const Tensor& t) { return t.type == DType::f64; }
template <class A>
LATHE_INLINE bool is_f64(const A&) {
  return false;
}

/// A table's entry of single precision: hands on to `wide`, what stood there before, where a tensor
/// is f64. The first `Skip` arguments are f64 whatever the data is.
template <Lanes L, auto Member, auto Narrow, int Skip>
struct Entry;
template <Lanes L, class Family, class... A, void (*Family::*Member)(Queue&, A...) noexcept,
          void (*Narrow)(Queue&, A...) noexcept, int Skip>
struct Entry<L, Member, Narrow, Skip> {
  static inline void (*wide)(Queue&, A...) noexcept = nullptr;
  static void call(Queue& q, A... a) noexcept {
    int at = 0;
    if (((at++ >= Skip && is_f64(a)) || ...)) return wide(q, a...);
    Narrow(q, a...);
  }
};

/// Puts `Function`, written over the lanes L, into a family of a table.
template <Lanes L, auto Member, auto Function, int Skip = 0, class Family>
LATHE_INLINE void set_entry(Family& family) {
  if constexpr (std::is_same_v<typename L::Scalar, double>) {
    family.*Member = Function;
  } else {
    using E = Entry<L, Member, Function, Skip>;
    E::wide = family.*Member;
    family.*Member = &E::call;
  }
}

}  // namespace lathe::kernels
