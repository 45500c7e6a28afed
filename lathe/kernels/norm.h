#pragma once
// Norms over the rows of a matrix. R rows, C columns.

#include "lathe/base/queue.h"
#include "lathe/base/view.h"

namespace lathe::kernels {

/// x is in the residual or activation type, y and dy in the activation type, weights, their
/// gradients and the statistics in the master type. Sums over a row are taken in the master type
/// in the order of lanes.h. Sums over rows (dw, db) are chains: for each column, rows are added one
/// by one in ascending order to what dw held, so that cutting R in two changes no bit.
struct NormKernels {
  /// y[r,:] = x[r,:] * rstd[r] * w  with  rstd[r] = 1 / sqrt(mean(x[r,:]^2) + eps).
  /// x, y (R, C); w (1, C); rstd (R, 1). y may be x if types agree.
  void (*rms_forward)(Queue&, const Tensor& y, const Tensor& rstd, const ConstTensor& x,
                      const ConstTensor& w, double eps) noexcept;
  /// dx (R, C) = [dx +] gradient; adds to dw (1, C). dx is in x's type or wider.
  void (*rms_backward)(Queue&, const Tensor& dx, const Tensor& dw, const ConstTensor& dy,
                       const ConstTensor& x, const ConstTensor& w, const ConstTensor& rstd,
                       bool add) noexcept;
  /// y = (x - mean) * rstd * w + b, rstd = 1 / sqrt(var + eps), var the mean of (x - mean)^2.
  void (*layer_forward)(Queue&, const Tensor& y, const Tensor& mean, const Tensor& rstd,
                        const ConstTensor& x, const ConstTensor& w, const ConstTensor& b,
                        double eps) noexcept;
  /// dx = [dx +] gradient; adds to dw and db (1, C).
  void (*layer_backward)(Queue&, const Tensor& dx, const Tensor& dw, const Tensor& db,
                         const ConstTensor& dy, const ConstTensor& x, const ConstTensor& w,
                         const ConstTensor& mean, const ConstTensor& rstd, bool add) noexcept;
};

}  // namespace lathe::kernels
