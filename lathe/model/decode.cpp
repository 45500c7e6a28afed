#include "lathe/model/decode.h"

#include <cstddef>
#include <span>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/error.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/pointwise.h"
#include "lathe/model/attention.h"
#include "lathe/model/block.h"
#include "lathe/model/config.h"
#include "lathe/model/ctx.h"
#include "lathe/model/head.h"
#include "lathe/model/transformer.h"
#include "lathe/numerics/recipe.h"

namespace lathe::model {

namespace {

constexpr i32 kAtStart = 0;  // the one row of a batch of one token begins its document

/// x (1, C) = the block of x, `position` tokens being in the caches of keys and values.
void step_block(const Block& b, Ctx& c, const Tensor& x, const Tensor& keys, const Tensor& values,
                i64 position) {
  const Frame frame(c.temp);
  const Attention& a = b.attention;
  const i64 q_width = a.heads * a.head_dim, kv_width = a.kv_heads * a.head_dim;
  Block::Saved s;
  b.norm1.forward(c, s.norm1, x);
  const Tensor qkv =
      c.temp.take("queries, keys, values", c.recipe.activation, 1, q_width + 2 * kv_width);
  const Tensor context = c.temp.take("attention outputs", c.recipe.activation, 1, q_width);
  a.project(c, qkv, s.attention, s.norm1.y, {&kAtStart, 1, 1}, position);
  c.k.pointwise.convert(c.q, keys.slice_rows(position, 1), qkv.slice_cols(q_width, kv_width));
  c.k.pointwise.convert(c.q, values.slice_rows(position, 1),
                        qkv.slice_cols(q_width + kv_width, kv_width));
  c.k.attention.decode(c.q, context, qkv.slice_cols(0, q_width), keys, values, position + 1,
                       a.shape(c.recipe));
  a.out.forward(c, x, context, true);
  b.norm2.forward(c, s.norm2, x);
  b.mlp.forward(c, s.mlp, s.norm2.y);
  b.mlp.down.forward(c, x, s.mlp.hidden, true);
}

}  // namespace

Decoder::Decoder(const Transformer& t, const kernels::Kernels& k, const numerics::Recipe& r,
                 Queue& q, Arena& cache, Arena& scratch)
    : transformer_(t),
      kernels_(k),
      recipe_(r),
      queue_(q),
      frame_(cache),
      scratch_(scratch),
      cache_(take_cache(t.config(), r, cache)),
      logits_(static_cast<std::size_t>(t.config().vocab)) {}

Decoder::Cache Decoder::take_cache(const ModelConfig& m, const numerics::Recipe& r, Arena& a) {
  Cache cache;
  for (i64 l = 0; l < m.layers; ++l) {
    cache.keys.push_back(a.take("keys", r.activation, m.context, m.kv_heads * m.head_dim));
    cache.values.push_back(a.take("values", r.activation, m.context, m.kv_heads * m.head_dim));
  }
  cache.logits = a.take("logits", r.master, 1, m.vocab);
  return cache;
}

std::span<const float> Decoder::next(i32 token) {
  const ModelConfig& m = transformer_.config();
  CHECK(!full(), "a context of {} tokens is full", m.context);
  CHECK(token >= 0 && token < m.vocab, "id {} of a vocabulary of {}", token, m.vocab);
  Ctx c{kernels_, recipe_, queue_, scratch_, scratch_, {.first_row = position_}};
  const Frame frame(c.temp);
  const Transformer::Stack& stack = transformer_.stack();
  const Tensor x = c.temp.take("residual stream", c.recipe.residual, 1, m.width);
  Embedding embed = stack.embed;
  if (!embed.position.empty()) embed.position = embed.position.slice_rows(position_, 1);
  embed.forward(c, x, {&token, nullptr, &kAtStart, 1, 1});
  for (std::size_t l = 0; l < stack.blocks.size(); ++l)
    step_block(stack.blocks[l], c, x, cache_.keys[l], cache_.values[l], position_);
  Norm::Saved last;
  stack.norm.forward(c, last, x);
  stack.head.out.forward(c, cache_.logits, last.y);
  ++position_;
  kernels_.pointwise.convert(queue_, tensor(logits_.data(), 1, m.vocab), cache_.logits);
  return std::span<const float>(logits_).first(static_cast<std::size_t>(m.known()));
}

DecoderMemory DecoderMemory::measured(const Transformer& t, const numerics::Recipe& r) {
  DecoderMemory m{Arena("cache"), Arena("decoding")};
  Queue q(0);
  Decoder(t, kernels::dry(), r, q, m.cache, m.scratch).next(0);
  return m;
}

DecoderMemory DecoderMemory::backed(const DecoderMemory& m) {
  return {Arena("cache", m.cache.peak()), Arena("decoding", m.scratch.peak())};
}

}  // namespace lathe::model
