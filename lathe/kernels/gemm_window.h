#pragma once
// Where the sums of a product start from and where they go. Written over V, the vectors of one
// instruction set: V::kLanes, Reg, zero, load(p), store(p, x), broadcast(p), add, mul, fma(x, y, z)
// = x y + z, load_bf16(p), store_bf16(p, x).

#include "lathe/base/view.h"
#include "lathe/kernels/gemm.h"
#include "lathe/kernels/lanes.h"

namespace lathe::kernels {

/// A part of c with what its sums start from.
struct Window {
  ConstTensor from;  // empty: zero
  Tensor to;
  ConstTensor bias;  // (1, cols); empty: none
  // Where scales differ nowhere along the sum: it is scaled at its end
  bool scaled_at_end = false;
  bool onto = false;  // and added to what `to` holds, else to zero

  LATHE_INLINE Window part(i64 row, i64 rows, i64 col, i64 cols) const {
    Window w = *this;
    if (!from.empty()) w.from = from.slice_rows(row, rows).slice_cols(col, cols);
    w.to = to.slice_rows(row, rows).slice_cols(col, cols);
    if (!bias.empty()) w.bias = bias.slice_cols(col, cols);
    return w;
  }

  /// Whether sums may wait in c between parts of the summed dimension.
  LATHE_INLINE bool can_wait() const { return to.type == DType::f32 && !onto; }

  /// The same when only a part of each sum is taken: between the first and the last part, sums wait
  /// in `to` if they can, else in `beside`.
  LATHE_INLINE Window stretch(bool first, bool last, std::byte* beside) const {
    Tensor waiting = to;
    if (!can_wait()) waiting = {beside, DType::f32, to.rows, to.cols, to.cols};
    Window w = *this;
    if (!first) w.from = waiting;
    if (!last) {
      w.to = waiting;
      w.bias = {};
      w.scaled_at_end = w.onto = false;
    }
    return w;
  }
};

LATHE_INLINE Window window(const Tensor& c, const Epilogue& e, bool scaled_at_end) {
  const bool from_c = e.add && !scaled_at_end;
  return {from_c ? ConstTensor(c) : ConstTensor{}, c, e.bias, scaled_at_end, e.add && !from_c};
}

template <class T>
LATHE_INLINE float read_as_float(T x) {
  return static_cast<float>(x);
}
LATHE_INLINE float read_as_float(bf16 x) { return to_float(x); }
LATHE_INLINE void write_float(float* to, float x) { *to = x; }
LATHE_INLINE void write_float(double* to, float x) { *to = static_cast<double>(x); }
LATHE_INLINE void write_float(bf16* to, float x) { *to = to_bf16(x); }

template <class V>
LATHE_INLINE typename V::Reg load_lanes(const float* p) {
  return V::load(p);
}
template <class V>
LATHE_INLINE typename V::Reg load_lanes(const bf16* p) {
  return V::load_bf16(p);
}
template <class V>
LATHE_INLINE void store_lanes(float* p, typename V::Reg x) {
  V::store(p, x);
}
template <class V>
LATHE_INLINE void store_lanes(bf16* p, typename V::Reg x) {
  V::store_bf16(p, x);
}

/// True for the types that vectors read and write; f64 goes one by one.
template <class T>
inline constexpr bool kVectors = !__is_same(T, double);

template <class V, class T>
LATHE_INLINE void load_row(float* tile, const T* from, i64 cols) {
  i64 i = 0;
  if constexpr (kVectors<T>)
    for (; i + V::kLanes <= cols; i += V::kLanes) V::store(tile + i, load_lanes<V>(from + i));
  for (; i < cols; ++i) tile[i] = read_as_float(from[i]);
}

/// What a row's sums become on their way to c.
struct RowEnd {
  const float* bias;             // null: none
  const float* scale = nullptr;  // of the row; null: none
  const float* col_scales = nullptr;
  bool onto = false;
};

template <class V, class T>
LATHE_INLINE void store_row(T* to, const float* tile, const RowEnd& e, i64 cols) {
  i64 i = 0;
  if constexpr (kVectors<T>)
    for (; i + V::kLanes <= cols; i += V::kLanes) {
      typename V::Reg x = V::load(tile + i);
      if (e.scale)
        x = V::fma(x, V::mul(V::broadcast(e.scale), V::load(e.col_scales + i)),
                   e.onto ? load_lanes<V>(to + i) : V::zero());
      if (e.bias) x = V::add(x, V::load(e.bias + i));
      store_lanes<V>(to + i, x);
    }
  for (; i < cols; ++i) {
    float x = tile[i];
    if (e.scale)
      x = __builtin_fmaf(x, *e.scale * e.col_scales[i], e.onto ? read_as_float(to[i]) : 0.0F);
    write_float(to + i, e.bias ? x + e.bias[i] : x);
  }
}

/// tile (rows, cols), its rows `stride` apart and `stride` a multiple of V::kLanes, = `from` at
/// (row, col), or zero where `from` is empty. Elements of the tile past the edge are zero.
template <class V>
LATHE_INLINE void start_tile(float* tile, i64 stride, i64 tile_rows, const ConstTensor& from,
                             i64 row, i64 rows, i64 col, i64 cols) {
  const bool zero = from.empty();
  if (zero || rows < tile_rows || cols < stride)
    for (i64 i = 0; i < tile_rows * stride; i += V::kLanes) V::store(tile + i, V::zero());
  if (zero) return;
  for (i64 r = 0; r < rows; ++r) {
    if (from.type == DType::f32)
      load_row<V>(tile + r * stride, from.row<float>(row + r) + col, cols);
    else if (from.type == DType::bf16)
      load_row<V>(tile + r * stride, from.row<bf16>(row + r) + col, cols);
    else
      load_row<V>(tile + r * stride, from.row<double>(row + r) + col, cols);
  }
}

/// Scales sums where the window says so, adds the bias, rounds once and stores at (row, col) of the
/// window.
template <class V>
LATHE_INLINE void finish_tile(const Window& w, i64 row, i64 rows, i64 col, i64 cols,
                              const float* tile, i64 stride, const float* row_scales,
                              const float* col_scales) {
  RowEnd e{w.bias.empty() ? nullptr : w.bias.row<float>(0) + col};
  e.col_scales = col_scales;
  e.onto = w.onto;
  for (i64 r = 0; r < rows; ++r) {
    if (w.scaled_at_end) e.scale = row_scales + r;
    if (w.to.type == DType::f32)
      store_row<V>(w.to.row<float>(row + r) + col, tile + r * stride, e, cols);
    else if (w.to.type == DType::bf16)
      store_row<V>(w.to.row<bf16>(row + r) + col, tile + r * stride, e, cols);
    else
      store_row<V>(w.to.row<double>(row + r) + col, tile + r * stride, e, cols);
  }
}

}  // namespace lathe::kernels
