#pragma once
// What the optimizer does to one parameter.

#include "lathe/base/queue.h"
#include "lathe/base/view.h"

namespace lathe::kernels {

/// AdamW (Loshchilov and Hutter, 2019) with decoupled decay. Scalars are computed by the caller in
/// f64 and rounded once.
struct AdamW {
  double lr, beta1, beta2, eps, weight_decay;
  double correction1, correction2;  // 1 - beta^step
  double grad_scale;                // multiplies every gradient: 1 / tokens, times the clip factor
};

struct UpdateKernels {
  /// g = grad * grad_scale; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
  /// w = w - lr (weight_decay w + (m / correction1) / (sqrt(v / correction2) + eps)).
  /// All of one shape, in the master type.
  void (*adamw)(Queue&, const Tensor& w, const Tensor& m, const Tensor& v, const ConstTensor& grad,
                const AdamW& a) noexcept;
  /// sum[0] = sum of squares of x in f64, in a fixed order that depends on x's shape alone; NaN or
  /// Inf where x holds any. sum: (1, 1) f64.
  void (*sum_squares)(Queue&, const Tensor& sum, const ConstTensor& x) noexcept;
};

}  // namespace lathe::kernels
