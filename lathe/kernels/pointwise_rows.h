#pragma once
// pointwise.h over any lane type.

#include <cstring>

#include "lathe/kernels/math.h"
#include "lathe/kernels/pointwise.h"
#include "lathe/kernels/row_work.h"

namespace lathe::kernels {

/// y = silu(g) u.
template <Lanes L, class Y, class X>
LATHE_INLINE void swiglu_part(Y* y, const X* g, const X* u, i64 count) {
  for_lanes(count, [&](i64 i, auto n) {
    (silu(L::load(g + i, n)).value * L::load(u + i, n)).store(y + i, n);
  });
}

/// dg = dy u silu'(g), du = dy silu(g). dg may be g and du may be u.
template <Lanes L, class DX, class DY, class X>
LATHE_INLINE void swiglu_part_backward(DX* dg, DX* du, const DY* dy, const X* g, const X* u,
                                       i64 count) {
  for_lanes(count, [&](i64 i, auto n) {
    const Silu<L> s = silu(L::load(g + i, n));
    const L d = L::load(dy + i, n), up = L::load(u + i, n);
    (d * up * s.slope).store(dg + i, n);
    (d * s.value).store(du + i, n);
  });
}

/// (a, b) = (a cos - b sin, b cos + a sin) for `half` pairs, b standing `half` elements after a.
template <Lanes L, class X, class S = typename L::Scalar>
LATHE_INLINE void rotate_head(X* x, i64 half, const S* angles, S sign) {
  for_lanes(half, [&](i64 i, auto n) {
    const L cos = L::load(angles + i, n);
    const L sin = L::load(angles + half + i, n) * L::broadcast(sign);
    const L a = L::load(x + i, n), b = L::load(x + half + i, n);
    fma(a, cos, -(b * sin)).store(x + i, n);
    fma(b, cos, a * sin).store(x + half + i, n);
  });
}

template <Lanes L>
void gelu_forward(Queue& q, const Tensor& y_of, const ConstTensor& x_of) noexcept {
  Tensor y = y_of;
  ConstTensor x = x_of;
  flatten(y, x);
  with_type<L>(x.type, [&]<class X>(Type<X>) {
    with_type<L>(y.type, [&]<class Y>(Type<Y>) {
      for_segments<L>(q, x.rows, x.cols, [&](i64 r, i64 c, i64 count) {
        for_lanes(count, [&](i64 i, auto n) {
          gelu(L::load(x.row<X>(r) + c + i, n)).store(y.row<Y>(r) + c + i, n);
        });
      });
    });
  });
}

template <Lanes L>
void gelu_backward(Queue& q, const Tensor& dx_of, const ConstTensor& dy_of,
                   const ConstTensor& x_of) noexcept {
  Tensor dx = dx_of;
  ConstTensor dy = dy_of, x = x_of;
  flatten(dx, dy, x);
  with_type<L>(x.type, [&]<class X>(Type<X>) {
    with_type<L>(dy.type, [&]<class DY>(Type<DY>) {
      with_type<L>(dx.type, [&]<class DX>(Type<DX>) {
        for_segments<L>(q, x.rows, x.cols, [&](i64 r, i64 c, i64 count) {
          for_lanes(count, [&](i64 i, auto n) {
            const L slope = gelu_slope(L::load(x.row<X>(r) + c + i, n));
            (L::load(dy.row<DY>(r) + c + i, n) * slope).store(dx.row<DX>(r) + c + i, n);
          });
        });
      });
    });
  });
}

template <Lanes L>
void swiglu_forward(Queue& q, const Tensor& y, const ConstTensor& x) noexcept {
  const i64 F = y.cols;
  with_type<L>(x.type, [&]<class X>(Type<X>) {
    with_type<L>(y.type, [&]<class Y>(Type<Y>) {
      for_segments<L>(q, y.rows, F, [&](i64 r, i64 c, i64 count) {
        const X* g = x.row<X>(r) + c;
        swiglu_part<L>(y.row<Y>(r) + c, g, g + F, count);
      });
    });
  });
}

template <Lanes L>
void swiglu_backward(Queue& q, const Tensor& dx, const ConstTensor& dy,
                     const ConstTensor& x) noexcept {
  const i64 F = dy.cols;
  with_type<L>(x.type, [&]<class X>(Type<X>) {
    with_type<L>(dy.type, [&]<class DY>(Type<DY>) {
      with_type<L>(dx.type, [&]<class DX>(Type<DX>) {
        for_segments<L>(q, dy.rows, F, [&](i64 r, i64 c, i64 count) {
          const X* g = x.row<X>(r) + c;
          DX* dg = dx.row<DX>(r) + c;
          swiglu_part_backward<L>(dg, dg + F, dy.row<DY>(r) + c, g, g + F, count);
        });
      });
    });
  });
}

/// Tokens from the start of the document to the token of row r.
LATHE_INLINE i64 place(const Places& at, i64 r) { return r % at.time - at.doc_start[r]; }

template <Lanes L>
void rope(Queue& q, const Tensor& x, i64 heads, i64 head_dim, const ConstTensor& angles,
          const Places& at, i64 first, int sign) noexcept {
  using S = typename L::Scalar;
  with_type<L>(x.type, [&]<class X>(Type<X>) {
    for_rows<L>(q, x.rows, heads * head_dim, [&](i64 r) {
      const S* a = angles.row<S>(place(at, r) + first);
      for (i64 h = 0; h < heads; ++h)
        rotate_head<L>(x.row<X>(r) + h * head_dim, head_dim / 2, a, S(sign));
    });
  });
}

template <Lanes L>
void add_column_sums(Queue& q, const Tensor& y, const ConstTensor& x) noexcept {
  using S = typename L::Scalar;
  with_type<L>(x.type, [&]<class X>(Type<X>) {
    for_column_blocks<L>(q, x.cols, [&](i64 begin, i64 count) {
      chain_rows<L>({y.row<S>(0)}, begin, count, x.rows, [&](i64 r, i64 c, auto n, auto& a) {
        a[0] = a[0] + L::load(x.row<X>(r) + c, n);
      });
    });
  });
}

template <Lanes L>
void convert(Queue& q, const Tensor& y_of, const ConstTensor& x_of) noexcept {
  Tensor y = y_of;
  ConstTensor x = x_of;
  flatten(y, x);
  with_any_type<L>(x.type, [&]<class X>(Type<X>) {
    with_any_type<L>(y.type, [&]<class Y>(Type<Y>) {
      for_segments<L>(q, x.rows, x.cols, [&](i64 r, i64 c, i64 count) {
        for_lanes(count, [&](i64 i, auto n) {
          L::load(x.row<X>(r) + c + i, n).store(y.row<Y>(r) + c + i, n);
        });
      });
    });
  });
}

template <Lanes L>
void add(Queue& q, const Tensor& y_of, const ConstTensor& x_of) noexcept {
  Tensor y = y_of;
  ConstTensor x = x_of;
  flatten(y, x);
  with_any_type<L>(x.type, [&]<class X>(Type<X>) {
    with_any_type<L>(y.type, [&]<class Y>(Type<Y>) {
      for_segments<L>(q, x.rows, x.cols, [&](i64 r, i64 c, i64 count) {
        for_lanes(count, [&](i64 i, auto n) {
          Y* to = y.row<Y>(r) + c + i;
          (L::load(to, n) + L::load(x.row<X>(r) + c + i, n)).store(to, n);
        });
      });
    });
  });
}

template <Lanes L>
void zero(Queue& q, const Tensor& y_of) noexcept {
  Tensor y = y_of;
  flatten(y);
  const i64 size = size_of(y.type);
  for_segments<L>(q, y.rows, y.cols, [&](i64 r, i64 c, i64 count) {
    std::memset(static_cast<std::byte*>(y.data) + (r * y.stride + c) * size, 0,
                static_cast<std::size_t>(count * size));
  });
}

template <Lanes L>
void embed_forward(Queue& q, const Tensor& y, const i32* ids, const ConstTensor& token,
                   const ConstTensor& position, const Places& at) noexcept {
  const i64 C = y.cols;
  with_any_type<L>(token.type, [&]<class E>(Type<E>) {
    with_any_type<L>(y.type, [&]<class Y>(Type<Y>) {
      if (position.empty()) {
        for_rows<L>(q, y.rows, C, [&](i64 r) {
          const E* e = token.row<E>(ids[r]);
          for_lanes(C, [&](i64 i, auto n) { L::load(e + i, n).store(y.row<Y>(r) + i, n); });
        });
        return;
      }
      with_any_type<L>(position.type, [&]<class P>(Type<P>) {
        for_rows<L>(q, y.rows, C, [&](i64 r) {
          const E* e = token.row<E>(ids[r]);
          const P* p = position.row<P>(place(at, r));
          for_lanes(C, [&](i64 i, auto n) {
            (L::load(e + i, n) + L::load(p + i, n)).store(y.row<Y>(r) + i, n);
          });
        });
      });
    });
  });
}

/// to[row_of(r), :] += dy[r, :] for r ascending, in the columns [begin, begin + count).
template <Lanes L, class DY, class RowOf>
LATHE_INLINE void scatter_rows(const Tensor& to, const ConstTensor& dy, i64 begin, i64 count,
                               const RowOf& row_of) {
  using S = typename L::Scalar;
  for (i64 r = 0; r < dy.rows; ++r) {
    S* t = to.row<S>(row_of(r)) + begin;
    const DY* d = dy.row<DY>(r) + begin;
    for_lanes(count,
              [&](i64 i, auto n) { (L::load(t + i, n) + L::load(d + i, n)).store(t + i, n); });
  }
}

template <Lanes L>
void embed_backward(Queue& q, const Tensor& dtoken, const Tensor& dposition, const i32* ids,
                    const ConstTensor& dy, const Places& at) noexcept {
  with_type<L>(dy.type, [&]<class DY>(Type<DY>) {
    for_column_blocks<L>(q, dy.cols, [&](i64 begin, i64 count) {
      scatter_rows<L, DY>(dtoken, dy, begin, count, [&](i64 r) { return i64{ids[r]}; });
      if (dposition.empty()) return;
      scatter_rows<L, DY>(dposition, dy, begin, count, [&](i64 r) { return place(at, r); });
    });
  });
}

template <Lanes L>
LATHE_INLINE void set_pointwise(PointwiseKernels& k) {
  using P = PointwiseKernels;
  set_entry<L, &P::gelu_forward, &gelu_forward<L>>(k);
  set_entry<L, &P::gelu_backward, &gelu_backward<L>>(k);
  set_entry<L, &P::swiglu_forward, &swiglu_forward<L>>(k);
  set_entry<L, &P::swiglu_backward, &swiglu_backward<L>>(k);
  set_entry<L, &P::rope, &rope<L>>(k);
  set_entry<L, &P::add_column_sums, &add_column_sums<L>>(k);
  set_entry<L, &P::convert, &convert<L>>(k);
  set_entry<L, &P::add, &add<L>>(k);
  set_entry<L, &P::zero, &zero<L>>(k);
  set_entry<L, &P::embed_forward, &embed_forward<L>>(k);
  set_entry<L, &P::embed_backward, &embed_backward<L>>(k);
}

}  // namespace lathe::kernels
