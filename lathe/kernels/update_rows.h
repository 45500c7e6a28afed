#pragma once
// update.h over any lane type.

#include "lathe/kernels/row_work.h"
#include "lathe/kernels/update.h"

namespace lathe::kernels {

/// The scalars of one step, each computed in f64 and rounded once.
template <Lanes L>
struct AdamWLanes {
  using S = typename L::Scalar;
  explicit AdamWLanes(const AdamW& a)
      : scale(L::broadcast(S(a.grad_scale))),
        beta1(L::broadcast(S(a.beta1))),
        rest1(L::broadcast(S(1 - a.beta1))),
        beta2(L::broadcast(S(a.beta2))),
        rest2(L::broadcast(S(1 - a.beta2))),
        unbias1(L::broadcast(S(1 / a.correction1))),
        unbias2(L::broadcast(S(1 / a.correction2))),
        eps(L::broadcast(S(a.eps))),
        decay(L::broadcast(S(a.weight_decay))),
        minus_lr(L::broadcast(S(-a.lr))) {}
  L scale, beta1, rest1, beta2, rest2, unbias1, unbias2, eps, decay, minus_lr;
};

template <Lanes L, class S = typename L::Scalar>
LATHE_INLINE void adamw_part(S* w, S* m, S* v, const S* grad, i64 count, const AdamWLanes<L>& a) {
  for_lanes(count, [&](i64 i, auto n) {
    const L g = L::load(grad + i, n) * a.scale;
    const L first = fma(a.beta1, L::load(m + i, n), a.rest1 * g);
    const L second = fma(a.beta2, L::load(v + i, n), a.rest2 * (g * g));
    const L step = first * a.unbias1 / (sqrt(second * a.unbias2) + a.eps);
    const L weight = L::load(w + i, n);
    fma(a.minus_lr, fma(a.decay, weight, step), weight).store(w + i, n);
    first.store(m + i, n);
    second.store(v + i, n);
  });
}

template <Lanes L>
void adamw(Queue& q, const Tensor& w_of, const Tensor& m_of, const Tensor& v_of,
           const ConstTensor& grad_of, const AdamW& a) noexcept {
  using S = typename L::Scalar;
  Tensor w = w_of, m = m_of, v = v_of;
  ConstTensor grad = grad_of;
  flatten(w, m, v, grad);
  for_segments<L>(q, w.rows, w.cols, [&](i64 r, i64 c, i64 count) {
    adamw_part<L>(w.row<S>(r) + c, m.row<S>(r) + c, v.row<S>(r) + c, grad.row<S>(r) + c, count,
                  AdamWLanes<L>(a));
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

template <Lanes L>
LATHE_INLINE void set_update(UpdateKernels& k) {
  set_entry<L, &UpdateKernels::adamw, &adamw<L>>(k);
  set_entry<L, &UpdateKernels::sum_squares, &sum_squares<L>, 1>(k);
}

}  // namespace lathe::kernels
