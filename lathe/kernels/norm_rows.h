#pragma once
// norm.h over any lane type. The functions on one row are apart, so that their gradients can be
// checked by complex step.

#include "lathe/kernels/norm.h"
#include "lathe/kernels/row_work.h"

namespace lathe::kernels {

/// y = x rstd w; returns rstd.
template <Lanes L, class Y, class X, class S = typename L::Scalar>
LATHE_INLINE S rms_row(Y* y, const X* x, const S* w, i64 C, S eps) {
  L squares = L::broadcast(0);
  for_lanes(C, [&](i64 i, auto n) {
    const L v = L::load(x + i, n);
    squares = fma(v, v, squares);
  });
  const S mean_square = squares.sum() / S(static_cast<double>(C));
  const L rstd = L::broadcast(1) / sqrt(L::broadcast(mean_square + eps));
  for_lanes(C,
            [&](i64 i, auto n) { (L::load(x + i, n) * rstd * L::load(w + i, n)).store(y + i, n); });
  return rstd.lane0();
}

/// With x' = x rstd and g = dy w:  dx = rstd (g - x' mean(g x')).
template <Lanes L, class DX, class DY, class X, class S = typename L::Scalar>
LATHE_INLINE void rms_row_backward(DX* dx, const DY* dy, const X* x, const S* w, i64 C,
                                   S rstd_of_row, bool add) {
  const L rstd = L::broadcast(rstd_of_row);
  L dots = L::broadcast(0);
  for_lanes(C, [&](i64 i, auto n) {
    const L g = L::load(dy + i, n) * L::load(w + i, n);
    dots = fma(g, L::load(x + i, n) * rstd, dots);
  });
  const L mean = L::broadcast(dots.sum() / S(static_cast<double>(C)));
  for_lanes(C, [&](i64 i, auto n) {
    const L g = L::load(dy + i, n) * L::load(w + i, n);
    L d = rstd * fma(-(L::load(x + i, n) * rstd), mean, g);
    if (add) d = L::load(dx + i, n) + d;
    d.store(dx + i, n);
  });
}

template <class S>
struct Moments {
  S mean, rstd;
};

/// y = (x - mean) rstd w + b.
template <Lanes L, class Y, class X, class S = typename L::Scalar>
LATHE_INLINE Moments<S> layer_row(Y* y, const X* x, const S* w, const S* b, i64 C, S eps) {
  L sums = L::broadcast(0);
  for_lanes(C, [&](i64 i, auto n) { sums = sums + L::load(x + i, n); });
  const L mean = L::broadcast(sums.sum() / S(static_cast<double>(C)));
  L squares = L::broadcast(0);
  for_lanes(C, [&](i64 i, auto n) {
    const L v = select(L::first(n), L::load(x + i, n) - mean, L::broadcast(0));
    squares = fma(v, v, squares);
  });
  const S variance = squares.sum() / S(static_cast<double>(C));
  const L rstd = L::broadcast(1) / sqrt(L::broadcast(variance + eps));
  for_lanes(C, [&](i64 i, auto n) {
    const L v = (L::load(x + i, n) - mean) * rstd;
    fma(v, L::load(w + i, n), L::load(b + i, n)).store(y + i, n);
  });
  return {mean.lane0(), rstd.lane0()};
}

/// With x' = (x - mean) rstd and g = dy w:  dx = rstd (g - mean(g) - x' mean(g x')).
template <Lanes L, class DX, class DY, class X, class S = typename L::Scalar>
LATHE_INLINE void layer_row_backward(DX* dx, const DY* dy, const X* x, const S* w, i64 C,
                                     Moments<S> m, bool add) {
  const L mean = L::broadcast(m.mean), rstd = L::broadcast(m.rstd);
  L sums = L::broadcast(0), dots = L::broadcast(0);
  for_lanes(C, [&](i64 i, auto n) {
    const L g = L::load(dy + i, n) * L::load(w + i, n);
    sums = sums + g;
    dots = fma(g, (L::load(x + i, n) - mean) * rstd, dots);
  });
  const L mean_g = L::broadcast(sums.sum() / S(static_cast<double>(C)));
  const L mean_gx = L::broadcast(dots.sum() / S(static_cast<double>(C)));
  for_lanes(C, [&](i64 i, auto n) {
    const L g = L::load(dy + i, n) * L::load(w + i, n);
    const L v = (L::load(x + i, n) - mean) * rstd;
    L d = rstd * fma(-v, mean_gx, g - mean_g);
    if (add) d = L::load(dx + i, n) + d;
    d.store(dx + i, n);
  });
}

template <Lanes L>
void rms_forward(Queue& q, const Tensor& y, const Tensor& rstd, const ConstTensor& x,
                 const ConstTensor& w, double eps) noexcept {
  using S = typename L::Scalar;
  with_type<L>(x.type, [&]<class X>(Type<X>) {
    with_type<L>(y.type, [&]<class Y>(Type<Y>) {
      for_rows<L>(q, x.rows, x.cols, [&](i64 r) {
        *rstd.row<S>(r) = rms_row<L>(y.row<Y>(r), x.row<X>(r), w.row<S>(0), x.cols, S(eps));
      });
    });
  });
}

template <Lanes L>
void rms_backward(Queue& q, const Tensor& dx, const Tensor& dw, const ConstTensor& dy,
                  const ConstTensor& x, const ConstTensor& w, const ConstTensor& rstd,
                  bool add) noexcept {
  using S = typename L::Scalar;
  with_type<L>(x.type, [&]<class X>(Type<X>) {
    with_type<L>(dy.type, [&]<class DY>(Type<DY>) {
      for_column_blocks<L>(q, x.cols, [&](i64 begin, i64 count) {
        chain_rows<L>({dw.row<S>(0)}, begin, count, x.rows, [&](i64 r, i64 c, auto n, auto& a) {
          const L v = L::load(x.row<X>(r) + c, n) * L::broadcast(*rstd.row<S>(r));
          a[0] = fma(L::load(dy.row<DY>(r) + c, n), v, a[0]);
        });
      });
      with_type<L>(dx.type, [&]<class DX>(Type<DX>) {
        for_rows<L>(q, x.rows, x.cols, [&](i64 r) {
          rms_row_backward<L>(dx.row<DX>(r), dy.row<DY>(r), x.row<X>(r), w.row<S>(0), x.cols,
                              *rstd.row<S>(r), add);
        });
      });
    });
  });
}

template <Lanes L>
void layer_forward(Queue& q, const Tensor& y, const Tensor& mean, const Tensor& rstd,
                   const ConstTensor& x, const ConstTensor& w, const ConstTensor& b,
                   double eps) noexcept {
  using S = typename L::Scalar;
  with_type<L>(x.type, [&]<class X>(Type<X>) {
    with_type<L>(y.type, [&]<class Y>(Type<Y>) {
      for_rows<L>(q, x.rows, x.cols, [&](i64 r) {
        const Moments<S> m =
            layer_row<L>(y.row<Y>(r), x.row<X>(r), w.row<S>(0), b.row<S>(0), x.cols, S(eps));
        *mean.row<S>(r) = m.mean;
        *rstd.row<S>(r) = m.rstd;
      });
    });
  });
}

template <Lanes L>
void layer_backward(Queue& q, const Tensor& dx, const Tensor& dw, const Tensor& db,
                    const ConstTensor& dy, const ConstTensor& x, const ConstTensor& w,
                    const ConstTensor& mean, const ConstTensor& rstd, bool add) noexcept {
  using S = typename L::Scalar;
  with_type<L>(x.type, [&]<class X>(Type<X>) {
    with_type<L>(dy.type, [&]<class DY>(Type<DY>) {
      for_column_blocks<L>(q, x.cols, [&](i64 begin, i64 count) {
        chain_rows<L>(
            {dw.row<S>(0), db.row<S>(0)}, begin, count, x.rows, [&](i64 r, i64 c, auto n, auto& a) {
              const L centred = L::load(x.row<X>(r) + c, n) - L::broadcast(*mean.row<S>(r));
              const L g = L::load(dy.row<DY>(r) + c, n);
              a[0] = fma(g, centred * L::broadcast(*rstd.row<S>(r)), a[0]);
              a[1] = a[1] + g;
            });
      });
      with_type<L>(dx.type, [&]<class DX>(Type<DX>) {
        for_rows<L>(q, x.rows, x.cols, [&](i64 r) {
          layer_row_backward<L>(dx.row<DX>(r), dy.row<DY>(r), x.row<X>(r), w.row<S>(0), x.cols,
                                Moments<S>{*mean.row<S>(r), *rstd.row<S>(r)}, add);
        });
      });
    });
  });
}

template <Lanes L>
LATHE_INLINE void set_norm(NormKernels& k) {
  set_entry<L, &NormKernels::rms_forward, &rms_forward<L>>(k);
  set_entry<L, &NormKernels::rms_backward, &rms_backward<L>>(k);
  set_entry<L, &NormKernels::layer_forward, &layer_forward<L>>(k);
  set_entry<L, &NormKernels::layer_backward, &layer_backward<L>>(k);
}

}  // namespace lathe::kernels
