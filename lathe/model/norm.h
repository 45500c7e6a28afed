#pragma once
// RMSNorm, or LayerNorm where the table has a bias for it.

#include <string>

#include "lathe/base/view.h"
#include "lathe/model/ctx.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

struct Norm {
  ConstTensor gain, bias;  // (1, C); no bias: RMSNorm
  Tensor dgain, dbias;
  double eps = 0;

  /// What backward reads.
  struct Saved {
    Tensor y;           // (R, C) activation type
    Tensor mean, rstd;  // (R, 1) master type; RMSNorm has no mean
  };

  /// The parameters `name`.gain and, where the table has one, `name`.bias.
  static Norm of(const parallel::ParamSet& p, const std::string& name, double eps);

  /// s.y = norm of the rows of x (R, C); takes all of `s` from c.keep.
  void forward(Ctx& c, Saved& s, const ConstTensor& x) const;
  /// dx (R, C) = [dx +] gradient; adds to the parameters'.
  void backward(Ctx& c, const Tensor& dx, const ConstTensor& dy, const ConstTensor& x,
                const Saved& s, bool add) const;
};

}  // namespace lathe::model
