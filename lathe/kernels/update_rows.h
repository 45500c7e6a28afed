#pragma once
// update.h over any lane type L and its words W.

#include "lathe/kernels/row_work.h"
#include "lathe/kernels/update.h"
#include "lathe/kernels/update_blocks.h"

namespace lathe::kernels {

/// What needs no rounding but that of its type: straight from memory to memory.
template <Lanes L, class S = typename L::Scalar>
LATHE_INLINE void adamw_plain(Queue& q, const Tensor& w_of, const Moment& m_of, const Moment& v_of,
                              const ConstTensor& grad_of, const AdamW& a) {
  S* const w = w_of.row<S>(0);
  S* const m = m_of.values.row<S>(0);
  S* const v = v_of.values.row<S>(0);
  const S* const grad = grad_of.row<S>(0);
  for_segments<L>(q, 1, w_of.size(), [&](i64, i64 begin, i64 count) {
    const AdamWLanes<L> scalars(a);
    for_lanes(count, [&](i64 j, auto n) {
      const i64 i = begin + j;
      const Stepped<L> to = step_of(L::load(w + i, n), L::load(m + i, n), L::load(v + i, n),
                                    L::load(grad + i, n), scalars);
      to.w.store(w + i, n);
      to.m.store(m + i, n);
      to.v.store(v + i, n);
    });
  });
}

template <Lanes L, class W>
void adamw(Queue& q, const Tensor& w, const Moment& m, const Moment& v, const ConstTensor& grad,
           const AdamW& a, const Draws& d) noexcept {
  const bool plain = m.kind == MomentKind::plain && v.kind == MomentKind::plain;
  if (plain && w.type != DType::bf16 && grad.type != DType::bf16)
    return adamw_plain<L>(q, w, m, v, grad, a);
  if constexpr (L::kSingle)
    for_segments<L>(q, 1, w.size(), [&](i64, i64 begin, i64 count) {
      const AdamWLanes<L> scalars(a);
      for (i64 i = begin; i < begin + count; i += kMomentBlock)
        adamw_block<L, W>(w, m, v, grad, scalars, d, i, smaller(kMomentBlock, begin + count - i));
    });
}

/// Parts of at most kPieceElements, by the shape alone: whole rows, or parts of long rows. Each is
/// summed in sixteen lanes, its rows one after another; the parts are then added in order.
template <Lanes L>
void sum_squares(Queue& q, const Tensor& sum, const ConstTensor& x) noexcept {
  const i64 per_row = ceil_div(x.cols, kPieceElements);
  const i64 rows = per_row > 1 ? 1 : kPieceElements / (x.cols > 0 ? x.cols : 1);
  const i64 parts = x.empty() ? 0 : ceil_div(x.rows, rows) * per_row;
  double* partial = reinterpret_cast<double*>(q.shared());
  with_type<L>(x.type, [&]<class X>(Type<X>) {
    for_pieces(q, parts, [&](i64 piece, int) {
      const i64 begin = piece % per_row * kPieceElements;
      const i64 count = smaller(kPieceElements, x.cols - begin);
      const i64 from = piece / per_row * rows, end = smaller(x.rows, from + rows);
      typename L::SquareSum squares;
      for (i64 r = from; r < end; ++r)
        for_lanes(count, [&](i64 i, auto n) { squares.add(L::load(x.row<X>(r) + begin + i, n)); });
      partial[piece] = squares.total();
    });
  });
  for_pieces(q, 1, [&](i64, int) {
    double total = 0;
    for (i64 p = 0; p < parts; ++p) total += partial[p];
    *sum.row<double>(0) = total;
  });
}

template <Lanes L, class W>
LATHE_INLINE void set_update(UpdateKernels& k) {
  set_entry<L, &UpdateKernels::adamw, &adamw<L, W>>(k);
  set_entry<L, &UpdateKernels::sum_squares, &sum_squares<L>, 1>(k);
}

}  // namespace lathe::kernels
