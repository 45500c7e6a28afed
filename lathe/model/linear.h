#pragma once
// A product with a weight matrix. M rows of x, K columns of x, N columns of y.

#include <string>

#include "lathe/base/view.h"
#include "lathe/kernels/gemm.h"
#include "lathe/model/ctx.h"
#include "lathe/numerics/recipe.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

/// x as a product reads it: x itself where its type is the format's, else converted into `arena`.
kernels::Operand encode(Ctx& c, Arena& arena, const ConstTensor& x, const numerics::Encoding& e,
                        kernels::Along along);

/// y = x w^T + bias. Knows no number format: the recipe does.
struct Linear {
  ConstTensor w;     // (N, K) as products read it
  ConstTensor bias;  // (1, N), or empty
  Tensor dw, dbias;  // the same shapes; empty where nothing is trained

  /// The parameters `name` and, where the table has one, `name`.bias.
  static Linear of(const parallel::ParamSet& p, const std::string& name);

  /// y (M, N) = [y +] x w^T + bias.
  void forward(Ctx& c, const Tensor& y, const ConstTensor& x, bool add = false) const;
  /// dx (M, K) = dy w; adds dy^T x to dw and dy's column sums to dbias.
  void backward(Ctx& c, const Tensor& dx, const ConstTensor& dy, const ConstTensor& x) const;
};

}  // namespace lathe::model
