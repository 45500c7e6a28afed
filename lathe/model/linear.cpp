#include "lathe/model/linear.h"

#include <string>

#include "lathe/base/arena.h"
#include "lathe/base/view.h"
#include "lathe/kernels/gemm.h"
#include "lathe/model/ctx.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

using kernels::Along;
using kernels::Operand;
using numerics::Encoding;
using parallel::Slot;

Linear Linear::of(const parallel::ParamSet& p, const std::string& name) {
  const parallel::Param& w = *p.find(name);
  Linear l{.w = &w, .bias = {}, .dw = w.grad, .dbias = {}};
  if (const parallel::Param* b = p.find(name + ".bias")) {
    l.bias = b->master;
    l.dbias = b->grad;
  }
  return l;
}

/// Where a tensor's scale and its past are. Only what is learned from may change them.
Tensor Linear::history(Ctx& c, Slot slot) const {
  if (parallel::encoding(w->products, slot).scaling != numerics::Scaling::delayed) return {};
  const Tensor row = w->history.slice_rows(static_cast<i64>(slot), 1);
  if (c.learning) return row;
  const Tensor copy = c.temp.take("scale of an operand", DType::f32, 1, row.cols);
  c.k.pointwise.convert(c.q, copy, row);
  return copy;
}

Operand Linear::encode(Ctx& c, const ConstTensor& x, Slot slot, Along along) const {
  const Encoding& e = parallel::encoding(w->products, slot);
  const DType storage = numerics::info(e.format).storage;
  const bool plain = numerics::is_plain(e);
  if (c.probe) parallel::record(c.q, c.k, *c.probe, *w, slot, x, c.at);
  if (plain && x.type == storage) return {.data = x, .format = e.format, .along = along};
  const Tensor codes = c.temp.take("operands", storage, x.rows, x.cols);
  Operand o{.data = codes, .format = e.format, .along = along};
  if (plain) {
    c.k.pointwise.convert(c.q, codes, x);
    return o;
  }
  const numerics::ScaleShape s = numerics::scale_shape(e, o.outer(), o.summed());
  Tensor scales;
  if (s.rows > 0) scales = c.temp.take("scales of operands", DType::f32, s.rows, s.cols);
  o.scales = scales;
  o.scale_outer = s.outer;
  o.scale_depth = s.depth;
  c.k.encode.encode(c.q, codes, scales, x, e, along, w->draws(slot, c.at), history(c, slot));
  return o;
}

void Linear::forward(Ctx& c, const Tensor& y, const ConstTensor& x, bool add) const {
  const Frame frame(c.temp);
  c.k.gemm.product(c.q, y, encode(c, x, Slot::forward_x, Along::cols), w->work,
                   {.add = add, .bias = bias});
}

void Linear::backward(Ctx& c, const Tensor& dx, const ConstTensor& dy, const ConstTensor& x) const {
  const Frame frame(c.temp);
  const Operand by_rows = encode(c, dy, Slot::grad_x_dy, Along::cols);
  Operand by_tokens = by_rows;
  by_tokens.along = Along::rows;
  if (parallel::served_by(w->products, Slot::grad_w_dy) == Slot::grad_w_dy)
    by_tokens = encode(c, dy, Slot::grad_w_dy, Along::rows);
  else if (c.probe)
    parallel::record(c.q, c.k, *c.probe, *w, Slot::grad_w_dy, dy, c.at);

  c.k.gemm.product(c.q, dx, by_rows, w->work_back, {});
  c.k.gemm.product(c.q, dw, by_tokens, encode(c, x, Slot::grad_w_x, Along::rows),
                   {.add = true, .bias = {}});
  if (!dbias.empty()) c.k.pointwise.add_column_sums(c.q, dbias, dy);
}

}  // namespace lathe::model
