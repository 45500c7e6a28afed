#include "lathe/model/mlp.h"

#include <string>

#include "lathe/base/arena.h"
#include "lathe/base/view.h"
#include "lathe/model/ctx.h"
#include "lathe/model/linear.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

Mlp Mlp::of(const parallel::ParamSet& p, const std::string& name) {
  const bool gated = p.find(name + ".gate_up") != nullptr;
  return {.up = Linear::of(p, name + (gated ? ".gate_up" : ".up")),
          .down = Linear::of(p, name + ".down"),
          .gated = gated};
}

void Mlp::forward(Ctx& c, Saved& s, const ConstTensor& x) const {
  s.pre = c.keep.take("mlp inputs", c.recipe.activation, x.rows, up.rows());
  s.hidden = c.keep.take("mlp outputs", c.recipe.activation, x.rows, down.cols());
  up.forward(c, s.pre, x);
  if (gated)
    c.k.pointwise.swiglu_forward(c.q, s.hidden, s.pre);
  else
    c.k.pointwise.gelu_forward(c.q, s.hidden, s.pre);
}

void Mlp::backward(Ctx& c, const Tensor& dx, const ConstTensor& dy, const ConstTensor& x,
                   const Saved& s) const {
  const Frame frame(c.temp);
  const Tensor dhidden = c.temp.take("d mlp outputs", c.recipe.activation, x.rows, s.hidden.cols);
  down.backward(c, dhidden, dy, s.hidden);
  if (gated) {
    c.k.pointwise.swiglu_backward(c.q, s.pre, dhidden, s.pre);
    up.backward(c, dx, s.pre, x);
  } else {
    c.k.pointwise.gelu_backward(c.q, dhidden, dhidden, s.pre);
    up.backward(c, dx, dhidden, x);
  }
}

}  // namespace lathe::model
