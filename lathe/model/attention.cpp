#include "lathe/model/attention.h"

#include <string>

#include "lathe/base/arena.h"
#include "lathe/base/view.h"
#include "lathe/kernels/attention.h"
#include "lathe/kernels/gemm.h"
#include "lathe/kernels/pointwise.h"
#include "lathe/model/config.h"
#include "lathe/model/ctx.h"
#include "lathe/model/linear.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/recipe.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

namespace {

/// A contiguous (R, n D) as the (R n, D) it also is: heads of a token follow one another, so that
/// sums over rows stay in the order of tokens.
Tensor by_head(const Tensor& x, i64 head_dim) {
  return {x.data, x.type, x.size() / head_dim, head_dim, head_dim};
}

HeadNorm head_norm(const parallel::ParamSet& p, const std::string& name, double eps) {
  const parallel::Param* g = p.find(name);
  return g ? HeadNorm{.gain = g->master, .dgain = g->grad, .eps = eps} : HeadNorm{};
}

}  // namespace

void HeadNorm::forward(Ctx& c, Saved& s, const Tensor& x) const {
  if (gain.empty()) return;
  s.x = c.keep.take("heads before their norm", x.type, x.rows, x.cols);
  s.rstd = c.keep.take("norm statistics", c.recipe.master, x.size() / gain.cols, 1);
  const Frame frame(c.temp);
  const Tensor y = c.temp.take("heads", x.type, x.rows, x.cols);
  c.k.pointwise.convert(c.q, s.x, x);
  c.k.norm.rms_forward(c.q, by_head(y, gain.cols), s.rstd, by_head(s.x, gain.cols), gain, eps);
  c.k.pointwise.convert(c.q, x, y);
}

void HeadNorm::backward(Ctx& c, const Tensor& dx, const Saved& s) const {
  if (gain.empty()) return;
  const Frame frame(c.temp);
  const Tensor dy = c.temp.take("heads", dx.type, dx.rows, dx.cols);
  const Tensor dh = c.temp.take("heads", dx.type, dx.rows, dx.cols);
  c.k.pointwise.convert(c.q, dy, dx);
  c.k.norm.rms_backward(c.q, by_head(dh, gain.cols), dgain, by_head(dy, gain.cols),
                        by_head(s.x, gain.cols), gain, s.rstd, false);
  c.k.pointwise.convert(c.q, dx, dh);
}

Attention Attention::of(const parallel::ParamSet& p, const std::string& name,
                        const ModelConfig& m) {
  return {.qkv = Linear::of(p, name + ".qkv"),
          .out = Linear::of(p, name + ".out"),
          .q_norm = head_norm(p, name + ".q_norm", m.norm_eps),
          .k_norm = head_norm(p, name + ".k_norm", m.norm_eps),
          .heads = m.heads,
          .kv_heads = m.kv_heads,
          .head_dim = m.head_dim,
          .window = m.window,
          .angles = {}};
}

kernels::AttentionShape Attention::shape(const numerics::Recipe& r) const {
  return {heads, kv_heads, head_dim, window, r.scores.a.format, r.values.a};
}

/// Rounds queries, keys and values where they lie, to what the two products multiply. Blocks of all
/// three run along the head: blocks of tokens would let a token feel what comes after it.
void Attention::encode(Ctx& c, const Tensor& of) const {
  const auto in_place = [&](const Tensor& x, const numerics::Encoding& e, parallel::Slot slot) {
    if (!numerics::is_plain(e))
      c.k.encode.encode(c.q, x, {}, x, e, kernels::Along::cols, qkv.w->draws(slot, c.at), {});
  };
  const i64 q_width = heads * head_dim, kv_width = kv_heads * head_dim;
  in_place(of.slice_cols(0, q_width), c.recipe.scores.a, parallel::kQuerySlot);
  in_place(of.slice_cols(q_width, kv_width), c.recipe.scores.b, parallel::kKeySlot);
  in_place(of.slice_cols(q_width + kv_width, kv_width), c.recipe.values.b, parallel::kValueSlot);
}

void Attention::project(Ctx& c, const Tensor& to, Saved& s, const ConstTensor& x,
                        const kernels::Places& at, i64 first) const {
  qkv.forward(c, to, x);
  q_norm.forward(c, s.q, to.slice_cols(0, heads * head_dim));
  k_norm.forward(c, s.k, to.slice_cols(heads * head_dim, kv_heads * head_dim));
  if (!angles.empty())
    c.k.pointwise.rope(c.q, to, heads + kv_heads, head_dim, angles, at, first, 1);
  encode(c, to);
}

void Attention::forward(Ctx& c, Saved& s, const ConstTensor& x, const kernels::Places& at) const {
  const i64 R = x.rows;
  s.qkv = c.keep.take("queries, keys, values", c.recipe.activation, R,
                      (heads + 2 * kv_heads) * head_dim);
  s.context = c.keep.take("attention outputs", c.recipe.activation, R, heads * head_dim);
  s.lse = c.keep.take("attention sums", c.recipe.master, R, heads);
  project(c, s.qkv, s, x, at, 0);
  c.k.attention.forward(c.q, s.context, s.lse, s.qkv, at, shape(c.recipe));
}

void Attention::backward(Ctx& c, const Tensor& dx, const ConstTensor& dy, const ConstTensor& x,
                         const Saved& s, const kernels::Places& at) const {
  const Frame frame(c.temp);
  const DType act = c.recipe.activation;
  const Tensor dcontext = c.temp.take("d attention outputs", act, x.rows, s.context.cols);
  const Tensor dqkv = c.temp.take("d queries, keys, values", act, x.rows, s.qkv.cols);
  out.backward(c, dcontext, dy, s.context);
  c.k.attention.backward(c.q, dqkv, dcontext, s.context, s.lse, s.qkv, at, shape(c.recipe));
  if (!angles.empty()) c.k.pointwise.rope(c.q, dqkv, heads + kv_heads, head_dim, angles, at, 0, -1);
  q_norm.backward(c, dqkv.slice_cols(0, heads * head_dim), s.q);
  k_norm.backward(c, dqkv.slice_cols(heads * head_dim, kv_heads * head_dim), s.k);
  qkv.backward(c, dx, dqkv, x);
}

}  // namespace lathe::model
