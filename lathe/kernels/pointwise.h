#pragma once
// What works on each element, and the embedding.

#include "lathe/base/queue.h"
#include "lathe/base/view.h"

namespace lathe::kernels {

/// Where each token of a batch stands. All (B*T) long. A document never sees another.
struct Places {
  const i32*
      doc_start;  // index in 0..T-1, within its row of the batch, of its document's first token
  i64 batch, time;
};

struct PointwiseKernels {
  /// y (R, F) = gelu(x), the tanh form: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
  void (*gelu_forward)(Queue&, const Tensor& y, const ConstTensor& x) noexcept;
  /// dx = dy * gelu'(x). dx may be dy.
  void (*gelu_backward)(Queue&, const Tensor& dx, const ConstTensor& dy,
                        const ConstTensor& x) noexcept;
  /// y (R, F) = silu(g) * u with x (R, 2F) = [g | u].
  void (*swiglu_forward)(Queue&, const Tensor& y, const ConstTensor& x) noexcept;
  /// dx (R, 2F) from dy (R, F). dx may be x.
  void (*swiglu_backward)(Queue&, const Tensor& dx, const ConstTensor& dy,
                          const ConstTensor& x) noexcept;
  /// Rotates the first `heads` heads of D columns of every row of x in place, halves paired as
  /// (i, i + D/2), by the angle position * theta^(-2i/D), position counted from the document's
  /// start, plus `first`. angles (T, D) = [cos | sin], each D/2 wide, comes from rope_angles.
  /// sign -1 rotates back: the gradient.
  void (*rope)(Queue&, const Tensor& x, i64 heads, i64 head_dim, const ConstTensor& angles,
               const Places& at, i64 first, int sign) noexcept;
  /// angles (T, D): cos and sin of position t, computed in f64 and rounded once.
  void (*rope_angles)(Queue&, const Tensor& angles, double theta) noexcept;
  /// y[r,c] += sum over rows, chained in ascending order per column: y (1, C), x (R, C).
  void (*add_column_sums)(Queue&, const Tensor& y, const ConstTensor& x) noexcept;
  /// y (R, C) = x, converted (rounded once, to nearest even; NaN stays NaN; subnormals
  /// stay, save between f64 and f32, which become zero).
  void (*convert)(Queue&, const Tensor& y, const ConstTensor& x) noexcept;
  /// y (R, C) += x, in y's type.
  void (*add)(Queue&, const Tensor& y, const ConstTensor& x) noexcept;
  /// y = 0.
  void (*zero)(Queue&, const Tensor& y) noexcept;

  /// y (B*T, C) = token[ids] [+ position[t - doc_start]]; position may be empty.
  void (*embed_forward)(Queue&, const Tensor& y, const i32* ids, const ConstTensor& token,
                        const ConstTensor& position, const Places& at) noexcept;
  /// Adds dy's rows to dtoken[ids] and dposition[t - doc_start], rows in ascending order.
  void (*embed_backward)(Queue&, const Tensor& dtoken, const Tensor& dposition, const i32* ids,
                         const ConstTensor& dy, const Places& at) noexcept;
};

}  // namespace lathe::kernels
