#include "lathe/model/norm.h"

#include <string>

#include "lathe/base/view.h"
#include "lathe/model/ctx.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

Norm Norm::of(const parallel::ParamSet& p, const std::string& name, double eps) {
  const parallel::Param& g = *p.find(name + ".gain");
  Norm n{.gain = g.master, .bias = {}, .dgain = g.grad, .dbias = {}, .eps = eps};
  if (const parallel::Param* b = p.find(name + ".bias")) {
    n.bias = b->master;
    n.dbias = b->grad;
  }
  return n;
}

void Norm::forward(Ctx& c, Saved& s, const ConstTensor& x) const {
  s.y = c.keep.take("norm outputs", c.recipe.activation, x.rows, x.cols);
  s.rstd = c.keep.take("norm statistics", c.recipe.master, x.rows, 1);
  if (bias.empty()) {
    c.k.norm.rms_forward(c.q, s.y, s.rstd, x, gain, eps);
    return;
  }
  s.mean = c.keep.take("norm statistics", c.recipe.master, x.rows, 1);
  c.k.norm.layer_forward(c.q, s.y, s.mean, s.rstd, x, gain, bias, eps);
}

void Norm::backward(Ctx& c, const Tensor& dx, const ConstTensor& dy, const ConstTensor& x,
                    const Saved& s, bool add) const {
  if (bias.empty())
    c.k.norm.rms_backward(c.q, dx, dgain, dy, x, gain, s.rstd, add);
  else
    c.k.norm.layer_backward(c.q, dx, dgain, dbias, dy, x, gain, s.mean, s.rstd, add);
}

}  // namespace lathe::model
