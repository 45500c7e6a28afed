#include "lathe/model/block.h"

#include <string>

#include "lathe/base/arena.h"
#include "lathe/base/view.h"
#include "lathe/kernels/pointwise.h"
#include "lathe/model/attention.h"
#include "lathe/model/config.h"
#include "lathe/model/ctx.h"
#include "lathe/model/mlp.h"
#include "lathe/model/norm.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

Block Block::of(const parallel::ParamSet& p, const std::string& name, const ModelConfig& m) {
  return {.norm1 = Norm::of(p, name + ".norm1", m.norm_eps),
          .norm2 = Norm::of(p, name + ".norm2", m.norm_eps),
          .attention = Attention::of(p, name + ".attn", m),
          .mlp = Mlp::of(p, name + ".mlp")};
}

void Block::attend(Ctx& c, Saved& s, const kernels::Places& at) const {
  norm1.forward(c, s.norm1, s.x);
  attention.forward(c, s.attention, s.norm1.y, at);
}

void Block::feed(Ctx& c, Saved& s) const {
  s.middle = c.keep.take("residual stream", c.recipe.residual, s.x.rows, s.x.cols);
  c.k.pointwise.convert(c.q, s.middle, s.x);
  attention.out.forward(c, s.middle, s.attention.context, true);
  norm2.forward(c, s.norm2, s.middle);
  mlp.forward(c, s.mlp, s.norm2.y);
}

void Block::forward(Ctx& c, const Tensor& out, Saved& s, const kernels::Places& at,
                    Recompute r) const {
  const Frame frame(c.temp);
  Ctx dropped = c.passing();
  attend(r == Recompute::none ? c : dropped, s, at);
  feed(r == Recompute::block ? dropped : c, s);
  c.k.pointwise.convert(c.q, out, s.middle);
  mlp.down.forward(c, out, s.mlp.hidden, true);
}

void Block::restore(Ctx& c, Saved& s, const kernels::Places& at, Recompute r) const {
  Ctx again = c.passing();
  again.probe = nullptr;  // it has seen this before
  if (r != Recompute::none) attend(again, s, at);
  if (r == Recompute::block) feed(again, s);
}

void Block::backward(Ctx& c, const Tensor& dx, const Saved& s, const kernels::Places& at) const {
  const Frame frame(c.temp);
  const Tensor dy = c.temp.take("d norm outputs", c.recipe.activation, dx.rows, dx.cols);
  mlp.backward(c, dy, dx, s.norm2.y, s.mlp);
  norm2.backward(c, dx, dy, s.middle, s.norm2, true);
  attention.backward(c, dy, dx, s.norm1.y, s.attention, at);
  norm1.backward(c, dx, dy, s.x, s.norm1, true);
}

}  // namespace lathe::model
