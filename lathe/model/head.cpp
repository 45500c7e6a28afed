#include "lathe/model/head.h"

#include <algorithm>

#include "lathe/base/arena.h"
#include "lathe/base/view.h"
#include "lathe/model/config.h"
#include "lathe/model/ctx.h"
#include "lathe/model/linear.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

namespace {

constexpr i64 kSlabBytes = i64{64} << 20;
constexpr i64 kSlabRows = 128;  // fewer would make the products thin

/// A multiple of 128, the longest block along tokens, so that cutting rows into slabs changes no
/// bit of the weights' gradient. Scales of a whole tensor or of a feature over all tokens, which a
/// recipe must ask for in a head, are those of a slab.
i64 slab_rows(i64 vocab, DType logits) {
  const i64 fit = kSlabBytes / (vocab * size_of(logits)) / kSlabRows * kSlabRows;
  return std::max(fit, kSlabRows);
}

/// The same memory, row by row, in a type that is as wide or narrower.
Tensor over(const Tensor& t, DType type) {
  return {t.data, type, t.rows, t.cols, t.stride * size_of(t.type) / size_of(type)};
}

}  // namespace

Embedding Embedding::of(const parallel::ParamSet& p) {
  const parallel::Param& t = *p.find("embed.token");
  Embedding e{.token = t.master, .position = {}, .dtoken = t.grad, .dposition = {}};
  if (const parallel::Param* at = p.find("embed.position")) {
    e.position = at->master;
    e.dposition = at->grad;
  }
  return e;
}

void Embedding::forward(Ctx& c, const Tensor& x, const Batch& b) const {
  c.k.pointwise.embed_forward(c.q, x, b.ids, token, position, b.places());
}

void Embedding::backward(Ctx& c, const ConstTensor& dx, const Batch& b) const {
  c.k.pointwise.embed_backward(c.q, dtoken, dposition, b.ids, dx, b.places());
}

Head Head::of(const parallel::ParamSet& p, const ModelConfig& m) {
  return {.out = Linear::of(p, p.find("head") ? "head" : "embed.token"), .tokens = m.known()};
}

void Head::loss(Ctx& c, const Tensor& dx, const ConstTensor& x, const i32* targets,
                const Tensor& loss_sum) const {
  const i64 V = out.rows();
  const i64 most = slab_rows(V, c.recipe.master);
  for (i64 r = 0; r < x.rows; r += most) {
    const Frame frame(c.temp);
    const i64 n = std::min(most, x.rows - r);
    const ConstTensor xs = x.slice_rows(r, n);
    const Tensor logits = c.temp.take("logits", c.recipe.master, n, V);
    const Tensor losses = c.temp.take("losses", c.recipe.master, n, 1);
    const Tensor dlogits = dx.empty() ? Tensor{} : over(logits, c.recipe.activation);
    Ctx here = c;
    here.at.first_row += r;

    out.forward(here, logits, xs);
    c.k.loss.cross_entropy(c.q, losses, dlogits, logits, targets ? targets + r : nullptr, tokens,
                           c.loss_scale);
    c.k.loss.add_losses(c.q, loss_sum, losses);
    if (!dx.empty()) out.backward(here, dx.slice_rows(r, n), dlogits, xs);
  }
}

}  // namespace lathe::model
