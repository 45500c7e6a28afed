#pragma once
// A panel: up to 128 rows of 128 columns of a tensor, in f32, in a worker's scratch memory, after
// its Hadamard transform and with the amax of each of its blocks. What lies beyond the tensor's
// edges is zero.

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/encode_draws.h"
#include "lathe/kernels/encode_plan.h"
#include "lathe/kernels/encode_round.h"
#include "lathe/kernels/lanes.h"
#include "lathe/kernels/row_work.h"
#include "lathe/numerics/encoding.h"

namespace lathe::kernels {

inline constexpr i64 kPanelRegisters = kPanelCols / kLanes;

/// A worker's scratch memory.
struct PanelSpace {
  static constexpr i64 kSize = kPanelRows * kPanelCols;
  float *x, *amax, *pre, *unit, *post, *decode, *measured;
  u32* words;

  LATHE_INLINE explicit PanelSpace(std::byte* scratch) {
    auto* f = reinterpret_cast<float*>(scratch);
    x = f, amax = f + kSize, pre = f + 2 * kSize, unit = f + 3 * kSize, post = f + 4 * kSize;
    decode = f + 5 * kSize, measured = f + 6 * kSize;
    words = reinterpret_cast<u32*>(f + 7 * kSize);
  }
};

/// Where a panel lies: rows [top, top + rows) and columns [left, left + cols).
struct PanelAt {
  i64 index, top, left, rows, cols;
};

/// How an (R, C) tensor is cut into panels, numbered row by row of panels, and these into pieces of
/// work, numbered alike: `some` panels of one row of them, or the last ones of it.
struct PanelCut {
  i64 height, R, C, across, some, groups, pieces;

  LATHE_INLINE PanelCut(i64 h, i64 rows, i64 cols) : height(h), R(rows), C(cols) {
    across = ceil_div(C, kPanelCols);
    some = ceil_div(kPieceElements, height * kPanelCols);
    groups = ceil_div(across, some);
    pieces = ceil_div(R, height) * groups;
  }
  /// The first panel of a piece, of which there may be one more than there are.
  LATHE_INLINE i64 first_panel(i64 piece) const {
    return groups == 0 ? 0 : piece / groups * across + piece % groups * some;
  }
};

/// f(at, worker) for each panel of the pieces [first, end).
template <Lanes L, class F>
LATHE_INLINE void for_panels(Queue& q, const PanelCut& cut, i64 first, i64 end, const F& f) {
  for_pieces(q, end - first, [&](i64 piece, int worker) {
    const i64 row = (first + piece) / cut.groups, group = (first + piece) % cut.groups;
    const i64 last = smaller(cut.across, (group + 1) * cut.some);
    for (i64 n = group * cut.some; n < last; ++n) {
      const i64 top = row * cut.height, left = n * kPanelCols;
      f(PanelAt{row * cut.across + n, top, left, smaller(cut.height, cut.R - top),
                smaller(kPanelCols, cut.C - left)},
        worker);
    }
  });
}

/// The same for each panel of an (R, C) tensor.
template <Lanes L, class F>
LATHE_INLINE void for_panels(Queue& q, i64 height, i64 R, i64 C, const F& f) {
  const PanelCut cut(height, R, C);
  for_panels<L>(q, cut, 0, cut.pieces, f);
}

template <Lanes L>
LATHE_INLINE L butterfly_signs(int stride) {
  const auto set = L::Bits::index() & L::Bits::broadcast(static_cast<u32>(stride));
  return L::broadcast(1) - L::number(set) * L::broadcast(2 / static_cast<float>(stride));
}

/// numerics::hadamard_sign of sixteen elements.
struct HadamardSigns {
  alignas(64) float of[kLanes] = {};
  consteval HadamardSigns() {
    for (i64 i = 0; i < kLanes; ++i) of[i] = static_cast<float>(numerics::hadamard_sign(i));
  }
};
template <Lanes L>
LATHE_INLINE L hadamard_signs() {
  static constexpr HadamardSigns kSigns;
  return L::load(kSigns.of);
}

/// Divides by the root of the order: of 16 and 64 it is whole.
template <Lanes L>
LATHE_INLINE L over_root(L x, int order) {
  if (order == 32) return x / L::broadcast(5.65685425F);
  return x * L::broadcast(order == 16 ? 0.25F : 0.125F);
}

/// Transforms of `order` consecutive elements of a row.
template <Lanes L>
LATHE_INLINE void hadamard_row(float* x, int order) {
  const L signs = hadamard_signs<L>();
  const L s1 = butterfly_signs<L>(1), s2 = butterfly_signs<L>(2), s4 = butterfly_signs<L>(4),
          s8 = butterfly_signs<L>(8);
  L v[kPanelRegisters];
#pragma GCC unroll 8
  for (i64 j = 0; j < kPanelRegisters; ++j) {
    L y = L::load(x + j * kLanes) * signs;
    y = fma(y, s1, L::template exchange<1>(y));
    y = fma(y, s2, L::template exchange<2>(y));
    y = fma(y, s4, L::template exchange<4>(y));
    v[j] = fma(y, s8, L::template exchange<8>(y));
  }
  for (i64 stride = 1; stride < order / kLanes; stride *= 2)
    for (i64 j = 0; j < kPanelRegisters; ++j) {
      if ((j & stride) != 0) continue;
      const L a = v[j], b = v[j + stride];
      v[j] = a + b, v[j + stride] = a - b;
    }
  for (i64 j = 0; j < kPanelRegisters; ++j) over_root(v[j], order).store(x + j * kLanes);
}

/// The butterflies of 16 rows of sixteen columns.
template <Lanes L>
LATHE_INLINE void hadamard_sixteen(float* x) {
  static constexpr HadamardSigns kSigns;
  L v[kLanes];
#pragma GCC unroll 16
  for (i64 i = 0; i < kLanes; ++i) {
    const L y = L::load(x + i * kPanelCols);
    v[i] = kSigns.of[i] < 0 ? -y : y;
  }
#pragma GCC unroll 4
  for (i64 stride = 1; stride < kLanes; stride *= 2)
#pragma GCC unroll 16
    for (i64 i = 0; i < kLanes; ++i) {
      if ((i & stride) != 0) continue;
      const L a = v[i], b = v[i + stride];
      v[i] = a + b, v[i + stride] = a - b;
    }
#pragma GCC unroll 16
  for (i64 i = 0; i < kLanes; ++i) v[i].store(x + i * kPanelCols);
}

/// Transforms of `order` consecutive elements of each column of sixteen.
template <Lanes L>
LATHE_INLINE void hadamard_columns(float* x, i64 rows, int order) {
  for (i64 top = 0; top < rows; top += kLanes) hadamard_sixteen<L>(x + top * kPanelCols);
  for (i64 stride = kLanes; stride < order; stride *= 2)
    for (i64 i = 0; i < rows; ++i) {
      if ((i & stride) != 0) continue;
      float *p = x + i * kPanelCols, *o = p + stride * kPanelCols;
      const L a = L::load(p), b = L::load(o);
      (a + b).store(p), (a - b).store(o);
    }
  for (i64 i = 0; i < rows; ++i) {
    float* p = x + i * kPanelCols;
    over_root(L::load(p), order).store(p);
  }
}

/// Fills a panel: `height` rows of it, whole.
template <Lanes L, class X>
void load_panel(float* to, const ConstTensor& x, const PanelAt& at, const EncodePlan& p) {
  for (i64 r = 0; r < at.rows; ++r) {
    const X* from = x.row<X>(at.top + r) + at.left;
    float* row = to + r * kPanelCols;
    if (at.cols == kPanelCols) {
#pragma GCC unroll 8
      for (i64 c = 0; c < kPanelCols; c += kLanes) L::load(from + c).store(row + c);
      continue;
    }
    for (i64 c = 0; c < kPanelCols; c += kLanes) {
      const i64 left = at.cols - c;
      const i64 n = left < 0 ? 0 : smaller(left, kLanes);
      (n > 0 ? L::load(from + c, n) : L::broadcast(0)).store(row + c);
    }
  }
  const L zero = L::broadcast(0);
  for (i64 i = at.rows * kPanelCols; i < p.height * kPanelCols; i += kLanes) zero.store(to + i);
  const int order = p.encoding.hadamard;
  if (order == 0) return;
  if (p.along == Along::cols) {
    for (i64 r = 0; r < at.rows; ++r) hadamard_row<L>(to + r * kPanelCols, order);
  } else {
    for (i64 c = 0; c < kPanelCols; c += kLanes) hadamard_columns<L>(to + c, p.height, order);
  }
}

/// Raises m to the magnitudes of sixteen values, as integers: so NaN is above all.
template <Lanes L>
LATHE_INLINE void raise(typename L::Bits& m, L x) {
  m = max(m, bits(x) & L::Bits::broadcast(0x7fffffff));
}

/// The largest magnitude, as bits, of each column of sixteen over `rows` rows.
template <Lanes L>
LATHE_INLINE typename L::Bits amax_columns(const float* x, i64 rows) {
  auto m = L::Bits::broadcast(0), n = m;
  i64 r = 0;
  for (; r + 1 < rows; r += 2) {
    raise(m, L::load(x + r * kPanelCols));
    raise(n, L::load(x + (r + 1) * kPanelCols));
  }
  if (r < rows) raise(m, L::load(x + r * kPanelCols));
  return max(m, n);
}

/// From 2 N registers to N, on the way to lane i holding the largest of v[i].
template <int N, Lanes L>
LATHE_INLINE void fold_step(L* v) {
#pragma GCC unroll 8
  for (i64 i = 0; i < N; ++i) {
    const L low = L::template low_lanes<N>(v[i], v[i + N]);
    const L high = L::template high_lanes<N>(v[i], v[i + N]);
    v[i] = L::from(max(bits(low), bits(high)));
  }
}

/// Lane i: the largest, as integers, of the lanes of v[i].
template <Lanes L>
LATHE_INLINE typename L::Bits fold_sixteen(L (&v)[kLanes]) {
  fold_step<8>(v), fold_step<4>(v), fold_step<2>(v), fold_step<1>(v);
  return bits(v[0]);
}

/// Of each block of `width` elements of `rows` rows, one after the other; 16 | rows.
template <Lanes L>
LATHE_INLINE void amax_of_rows(u32* to, const float* x, i64 rows, i64 width) {
  for (const float* end = x + rows * kPanelCols; x < end; x += kLanes * width, to += kLanes) {
    L v[kLanes];
#pragma GCC unroll 16
    for (i64 i = 0; i < kLanes; ++i) {
      auto m = L::Bits::broadcast(0);
      for (i64 c = 0; c < width; c += kLanes) raise(m, L::load(x + i * width + c));
      v[i] = L::from(m);
    }
    fold_sixteen(v).store(to);
  }
}

/// Of square blocks.
template <Lanes L>
LATHE_INLINE void amax_of_squares(u32* to, const float* x, i64 rows, i64 width) {
  for (i64 top = 0; top < rows; top += width)
    for (i64 left = 0; left < kPanelCols; left += width) {
      auto m = L::Bits::broadcast(0);
      for (i64 c = left; c < left + width; c += kLanes)
        m = max(m, amax_columns<L>(x + top * kPanelCols + c, width));
      *to++ = m.hmax();
    }
}

/// The amaxes of a panel's blocks, as bits of floats; how many.
template <Lanes L>
LATHE_INLINE i64 amax_of_blocks(float* amax, const float* x, const EncodePlan& p) {
  const i64 B = p.block;
  auto* to = reinterpret_cast<u32*>(amax);
  if (p.encoding.square) {
    amax_of_squares<L>(to, x, p.height, B);
    return p.height / B * (kPanelCols / B);
  }
  if (p.along == Along::cols) {
    amax_of_rows<L>(to, x, p.height, B);
    return p.height * (kPanelCols / B);
  }
  for (i64 top = 0; top < p.height; top += B)
    for (i64 c = 0; c < kPanelCols; c += kLanes)
      amax_columns<L>(x + top * kPanelCols + c, B).store(to + top / B * kPanelCols + c);
  return p.height / B * kPanelCols;
}

/// The random words of a panel's rows.
template <Lanes L>
LATHE_INLINE void draw_panel(u32* words, const PanelAt& at, i64 C, const Draws& d) {
  const auto across = static_cast<u64>(ceil_div(C, kPanelCols));
  const auto block = [&](i64 r) {
    return static_cast<u64>(d.first_row + at.top + r) * across +
           static_cast<u64>(at.left / kPanelCols);
  };
  i64 r = 0;
  for (; r + 1 < at.rows; r += 2) draw_blocks<2, L>(words + r * kDrawWords, d, block(r), across);
  if (r < at.rows) draw_blocks<1, L>(words + r * kDrawWords, d, block(r), across);
}

}  // namespace lathe::kernels
