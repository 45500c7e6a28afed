#include "lathe/model/linear.h"

#include <string>

#include "lathe/base/arena.h"
#include "lathe/base/view.h"
#include "lathe/kernels/gemm.h"
#include "lathe/model/ctx.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/recipe.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

using kernels::Along;
using kernels::Operand;

Operand encode(Ctx& c, Arena& arena, const ConstTensor& x, const numerics::Encoding& e,
               Along along) {
  const DType storage = numerics::info(e.format).storage;
  if (x.type == storage) return {x, e.format, along};
  const Tensor codes = arena.take("operands", storage, x.rows, x.cols);
  c.k.pointwise.convert(c.q, codes, x);
  return {codes, e.format, along};
}

Linear Linear::of(const parallel::ParamSet& p, const std::string& name) {
  const parallel::Param& w = *p.find(name);
  Linear l{.w = w.work, .bias = {}, .dw = w.grad, .dbias = {}};
  if (const parallel::Param* b = p.find(name + ".bias")) {
    l.bias = b->master;
    l.dbias = b->grad;
  }
  return l;
}

void Linear::forward(Ctx& c, const Tensor& y, const ConstTensor& x, bool add) const {
  const Frame frame(c.temp);
  const auto& [a, b] = c.recipe.linear.forward;
  c.k.gemm.product(c.q, y, encode(c, c.temp, x, a, Along::cols), {w, b.format, Along::cols},
                   {.add = add, .bias = bias});
}

void Linear::backward(Ctx& c, const Tensor& dx, const ConstTensor& dy, const ConstTensor& x) const {
  const Frame frame(c.temp);
  const numerics::Products& r = c.recipe.linear;
  const Operand by_rows = encode(c, c.temp, dy, r.grad_x.a, Along::cols);
  // One conversion of dy serves both products where they want the same codes.
  const ConstTensor again = r.grad_w.a == r.grad_x.a ? by_rows.data : dy;
  const Operand by_tokens = encode(c, c.temp, again, r.grad_w.a, Along::rows);

  c.k.gemm.product(c.q, dx, by_rows, {w, r.grad_x.b.format, Along::rows}, {});
  c.k.gemm.product(c.q, dw, by_tokens, encode(c, c.temp, x, r.grad_w.b, Along::rows),
                   {.add = true, .bias = {}});
  if (!dbias.empty()) c.k.pointwise.add_column_sums(c.q, dbias, dy);
}

}  // namespace lathe::model
