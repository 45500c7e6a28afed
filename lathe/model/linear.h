#pragma once
// A product with a weight matrix. M rows of x, K columns of x, N columns of y.

#include <string>

#include "lathe/base/view.h"
#include "lathe/kernels/gemm.h"
#include "lathe/model/ctx.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

/// y = x w^T + bias. Knows no number format: the parameter's row in the table says how operands are
/// written down.
struct Linear {
  const parallel::Param* w = nullptr;  // (N, K); the table outlives this
  ConstTensor bias;                    // (1, N), or empty
  Tensor dw, dbias;                    // the same shapes; empty where nothing is trained

  /// The parameters `name` and, where the table has one, `name`.bias.
  static Linear of(const parallel::ParamSet& p, const std::string& name);

  i64 rows() const { return w->spec.rows; }
  i64 cols() const { return w->spec.cols; }

  /// y (M, N) = [y +] x w^T + bias.
  void forward(Ctx& c, const Tensor& y, const ConstTensor& x, bool add = false) const;
  /// dx (M, K) = dy w; adds dy^T x to dw and dy's column sums to dbias.
  void backward(Ctx& c, const Tensor& dx, const ConstTensor& dy, const ConstTensor& x) const;

 private:
  /// x as a product reads it: x itself where it is that already, else encoded into c.temp.
  kernels::Operand encode(Ctx& c, const ConstTensor& x, parallel::Slot slot,
                          kernels::Along along) const;
  Tensor history(Ctx& c, parallel::Slot slot) const;
};

}  // namespace lathe::model
