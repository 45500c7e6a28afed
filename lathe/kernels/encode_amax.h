#pragma once
// The passes that come before encoding: the amax of a whole tensor or of each of its vectors.

#include <bit>

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/encode_panel.h"
#include "lathe/kernels/encode_plan.h"
#include "lathe/kernels/encode_scales.h"
#include "lathe/kernels/encode_values.h"
#include "lathe/kernels/row_work.h"

namespace lathe::kernels {

/// Queue::shared: a u32 of each worker, or the sums of panels; then what row scaling finds.
inline constexpr i64 kVectorScales = i64{16} << 20, kVectorDecodes = i64{24} << 20;
static_assert(kMostVectors * sizeof(float) == kVectorDecodes - kVectorScales);
static_assert(kMostVectors * sizeof(float) == Queue::kSharedScratch - kVectorDecodes);

/// From one worker's u32 to the next, a cache line further.
inline constexpr i64 kWorkerStep = 64 / sizeof(u32);

/// Whether the scaling asks for the amax of the whole tensor, after its transform.
LATHE_INLINE bool needs_amax(const numerics::Encoding& e) {
  using numerics::Scaling;
  return e.scaling == Scaling::current || e.scaling == Scaling::delayed ||
         e.scaling == Scaling::shift || e.scaling == Scaling::nvfp4;
}

/// Raises m to what `count` elements hold.
template <Lanes L, class X>
LATHE_INLINE void raise_to(typename L::Bits (&m)[4], const X* x, i64 count) {
  i64 i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes)
#pragma GCC unroll 4
    for (i64 k = 0; k < 4; ++k) raise(m[k], L::load(x + i + k * kLanes));
  for_lanes(count - i, [&](i64 k, auto n) { raise(m[0], L::load(x + i + k, n)); });
}

/// Raises a worker's u32 to the lanes of m.
template <class B>
LATHE_INLINE void raise_worker(u32* amax, int worker, const B (&m)[4]) {
  u32& to = amax[worker * kWorkerStep];
  const u32 largest = max(max(m[0], m[1]), max(m[2], m[3])).hmax();
  if (largest > to) to = largest;
}

/// Raises each worker's u32 to what it sees of x as it is.
template <Lanes L>
LATHE_INLINE void amax_of_pieces(Queue& q, u32* amax, const ConstTensor& x_of) {
  using B = typename L::Bits;
  ConstTensor x = x_of;
  flatten(x);
  const i64 some = ceil_div(kPieceElements, x.cols), across = ceil_div(x.cols, kPieceElements);
  const i64 pieces = ceil_div(x.rows, some) * across;
  with_type<L>(x.type, [&]<class X>(Type<X>) {
    for_pieces(q, pieces, [&](i64 piece, int worker) {
      B m[4] = {B::broadcast(0), B::broadcast(0), B::broadcast(0), B::broadcast(0)};
      const i64 top = piece / across * some, left = piece % across * kPieceElements;
      const i64 count = smaller(kPieceElements, x.cols - left);
      for (i64 r = top; r < smaller(x.rows, top + some); ++r)
        raise_to<L>(m, x.row<X>(r) + left, count);
      raise_worker(amax, worker, m);
    });
  });
}

/// The same of its panels after their transforms.
template <Lanes L>
LATHE_INLINE void amax_of_panels(Queue& q, u32* amax, const ConstTensor& x, const EncodePlan& p) {
  using B = typename L::Bits;
  with_type<L>(x.type, [&]<class X>(Type<X>) {
    for_panels<L>(q, p.height, x.rows, x.cols, [&](const PanelAt& at, int worker) {
      const PanelSpace s(q.scratch(worker));
      load_panel<L, X>(s.x, x, at, p);
      B m[4] = {B::broadcast(0), B::broadcast(0), B::broadcast(0), B::broadcast(0)};
      raise_to<L>(m, s.x, at.rows * kPanelCols);
      raise_worker(amax, worker, m);
    });
  });
}

template <Lanes L>
float amax_of_tensor(Queue& q, const ConstTensor& x, const EncodePlan& p) {
  if (x.empty()) return 0;
  auto* amax = reinterpret_cast<u32*>(q.shared());
  const i64 end = q.threads() * kWorkerStep;
  for (i64 i = 0; i < end; i += kWorkerStep) amax[i] = 0;
  if (p.encoding.hadamard == 0)
    amax_of_pieces<L>(q, amax, x);
  else
    amax_of_panels<L>(q, amax, x, p);
  u32 largest = 0;
  for (i64 i = 0; i < end; i += kWorkerStep) largest = amax[i] > largest ? amax[i] : largest;
  return std::bit_cast<float>(largest);
}

/// s.amax, of `count` vectors from the first on, to their scales.
template <Lanes L>
LATHE_INLINE void scale_vectors(const PanelSpace& s, i64 first, i64 count, const VectorScales& to,
                                const Tensor& scales, const EncodePlan& p) {
  for_lanes(count, [&](i64 i, auto n) {
    const L scale = vector_scale(L::load(s.amax + i, n), p);
    scale.store(to.pre + first + i, n);
    vector_decode(scale, p).store(to.decode + first + i, n);
  });
  if (scales.empty()) return;
  for (i64 i = 0; i < count; ++i) *scales.row<float>(first + i) = to.decode[first + i];
}

/// The amaxes of `rows` rows of x, or of the columns [left, left + cols), as x is.
template <Lanes L, class X>
LATHE_INLINE void amax_of_plain_rows(u32* amax, const ConstTensor& x, i64 top, i64 rows) {
  using B = typename L::Bits;
  for (i64 r = 0; r < rows; ++r) {
    B m[4] = {B::broadcast(0), B::broadcast(0), B::broadcast(0), B::broadcast(0)};
    raise_to<L>(m, x.row<X>(top + r), x.cols);
    amax[r] = max(max(m[0], m[1]), max(m[2], m[3])).hmax();
  }
}
template <Lanes L, class X>
LATHE_INLINE void amax_of_plain_columns(u32* amax, const ConstTensor& x, i64 left, i64 cols) {
  using B = typename L::Bits;
  if (cols < kPanelCols) {
    for_lanes(cols, [&](i64 c, auto n) {
      B m = B::broadcast(0);
      for (i64 r = 0; r < x.rows; ++r) raise(m, L::load(x.row<X>(r) + left + c, n));
      m.store(amax + c);
    });
    return;
  }
  B m[kPanelRegisters];
  for (B& one : m) one = B::broadcast(0);
  for (i64 r = 0; r < x.rows; ++r)
#pragma GCC unroll 8
    for (i64 j = 0; j < kPanelRegisters; ++j) raise(m[j], L::load(x.row<X>(r) + left + j * kLanes));
  for (i64 j = 0; j < kPanelRegisters; ++j) m[j].store(amax + j * kLanes);
}

/// The same after their transforms, panel by panel.
template <Lanes L, class X>
LATHE_INLINE void amax_of_turned_rows(const PanelSpace& s, const ConstTensor& x, i64 top, i64 rows,
                                      const EncodePlan& p) {
  using B = typename L::Bits;
  auto *amax = reinterpret_cast<u32*>(s.amax), *some = reinterpret_cast<u32*>(s.pre);
  for (i64 i = 0; i < p.height; i += kLanes) B::broadcast(0).store(amax + i);
  for (i64 left = 0; left < x.cols; left += kPanelCols) {
    load_panel<L, X>(s.x, x, {0, top, left, rows, smaller(kPanelCols, x.cols - left)}, p);
    amax_of_rows<L>(some, s.x, p.height, kPanelCols);
    for (i64 i = 0; i < p.height; i += kLanes)
      max(B::load(amax + i), B::load(some + i)).store(amax + i);
  }
}
template <Lanes L, class X>
LATHE_INLINE void amax_of_turned_columns(const PanelSpace& s, const ConstTensor& x, i64 left,
                                         i64 cols, const EncodePlan& p) {
  using B = typename L::Bits;
  auto* amax = reinterpret_cast<u32*>(s.amax);
  for (i64 c = 0; c < kPanelCols; c += kLanes) B::broadcast(0).store(amax + c);
  for (i64 top = 0; top < x.rows; top += p.height) {
    load_panel<L, X>(s.x, x, {0, top, left, smaller(p.height, x.rows - top), cols}, p);
    for (i64 c = 0; c < kPanelCols; c += kLanes)
      max(B::load(amax + c), amax_columns<L>(s.x + c, p.height)).store(amax + c);
  }
}

/// The scales of the rows of x, a band of panels a piece.
template <Lanes L, class X>
LATHE_INLINE void scales_of_rows(Queue& q, const ConstTensor& x, const Tensor& scales,
                                 const VectorScales& to, const EncodePlan& p) {
  for_pieces(q, ceil_div(x.rows, p.height), [&](i64 band, int worker) {
    const PanelSpace s(q.scratch(worker));
    const i64 top = band * p.height, rows = smaller(p.height, x.rows - top);
    if (p.encoding.hadamard != 0)
      amax_of_turned_rows<L, X>(s, x, top, rows, p);
    else
      amax_of_plain_rows<L, X>(reinterpret_cast<u32*>(s.amax), x, top, rows);
    scale_vectors<L>(s, top, rows, to, scales, p);
  });
}

/// The amaxes of the columns of x in each of its parts of `high` rows, into `parts` (., x.cols).
template <Lanes L, class X>
LATHE_INLINE void amax_of_columns(Queue& q, u32* parts, const ConstTensor& x, i64 high,
                                  const EncodePlan& p) {
  const i64 bands = ceil_div(x.cols, kPanelCols);
  for_pieces(q, ceil_div(x.rows, high) * bands, [&](i64 piece, int worker) {
    const PanelSpace s(q.scratch(worker));
    auto* amax = reinterpret_cast<u32*>(s.amax);
    const i64 part = piece / bands, left = piece % bands * kPanelCols;
    const i64 cols = smaller(kPanelCols, x.cols - left);
    const ConstTensor some = x.slice_rows(part * high, smaller(high, x.rows - part * high));
    if (p.encoding.hadamard != 0)
      amax_of_turned_columns<L, X>(s, some, left, cols, p);
    else
      amax_of_plain_columns<L, X>(amax, some, left, cols);
    for (i64 c = 0; c < cols; ++c) parts[part * x.cols + left + c] = amax[c];
  });
}

/// The scales of the columns of x: their amaxes are taken of parts of some rows first, so that few
/// columns have work for many threads.
template <Lanes L, class X>
LATHE_INLINE void scales_of_columns(Queue& q, const ConstTensor& x, const Tensor& scales,
                                    const VectorScales& to, const EncodePlan& p) {
  auto* parts = reinterpret_cast<u32*>(q.shared());
  const i64 most = kVectorScales / 4 / (x.cols > 0 ? x.cols : 1);  // parts that memory holds
  const i64 rows = x.rows > 0 ? x.rows : 1;
  const i64 high = kPanelRows * ceil_div(rows, kPanelRows * most), down = ceil_div(x.rows, high);
  amax_of_columns<L, X>(q, parts, x, high, p);
  for_pieces(q, ceil_div(x.cols, kPanelCols), [&](i64 band, int worker) {
    const PanelSpace s(q.scratch(worker));
    auto* amax = reinterpret_cast<u32*>(s.amax);
    const i64 left = band * kPanelCols, cols = smaller(kPanelCols, x.cols - left);
    for (i64 c = 0; c < cols; ++c) amax[c] = 0;
    for (i64 part = 0; part < down; ++part)
      for (i64 c = 0; c < cols; ++c) {
        const u32 one = parts[part * x.cols + left + c];
        if (one > amax[c]) amax[c] = one;
      }
    scale_vectors<L>(s, left, cols, to, scales, p);
  });
}

template <Lanes L>
VectorScales scales_of_vectors(Queue& q, const ConstTensor& x, const Tensor& scales,
                               const EncodePlan& p) {
  const bool along_cols = p.along == Along::cols;
  check_vectors(along_cols ? x.rows : x.cols);
  const VectorScales to{reinterpret_cast<float*>(q.shared() + kVectorScales),
                        reinterpret_cast<float*>(q.shared() + kVectorDecodes)};
  with_type<L>(x.type, [&]<class X>(Type<X>) {
    if (along_cols)
      scales_of_rows<L, X>(q, x, scales, to, p);
    else
      scales_of_columns<L, X>(q, x, scales, to, p);
  });
  return to;
}

/// All that must be known of the whole tensor, into p; with `raises`, history's amax is raised.
template <Lanes L>
LATHE_INLINE VectorScales take_amaxes(Queue& q, EncodePlan& p, const ConstTensor& x,
                                      const Tensor& history, const Tensor& scales, bool raises) {
  using numerics::Scaling;
  const Scaling scaling = p.encoding.scaling;
  const bool delayed = scaling == Scaling::delayed;
  float amax = 0;
  if (needs_amax(p.encoding) && (!delayed || raises)) amax = amax_of_tensor<L>(q, x, p);
  float* h = delayed ? history.row<float>(0) : nullptr;
  set_tensor_scale(p, amax, delayed ? h[kHistoryScale] : 1);
  if (delayed && raises && amax >= kFloatMinNormal && amax > h[kHistoryNow]) h[kHistoryNow] = amax;
  if (scaling == Scaling::row) return scales_of_vectors<L>(q, x, scales, p);
  return {};
}

}  // namespace lathe::kernels
