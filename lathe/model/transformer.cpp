#include "lathe/model/transformer.h"

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/view.h"
#include "lathe/kernels/pointwise.h"
#include "lathe/model/block.h"
#include "lathe/model/config.h"
#include "lathe/model/ctx.h"
#include "lathe/model/head.h"
#include "lathe/model/norm.h"
#include "lathe/numerics/recipe.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

using parallel::ParamSpec;
using parallel::Role;
using parallel::Shard;

namespace {

/// Rows of a model's table, in order.
struct Table {
  bool biased;  // norms and products have a bias
  i64 block = -1;
  std::vector<ParamSpec> rows = {};

  void norm(const std::string& name, i64 width) {
    rows.push_back({.name = name + ".gain", .cols = width, .role = Role::gain});
    if (biased) rows.push_back({.name = name + ".bias", .cols = width, .role = Role::bias});
  }
  void matrix(const std::string& name, i64 out, i64 in, Shard shard, double std, bool bias) {
    rows.push_back({name, out, in, Role::matrix, shard, std});
    rows.back().block = block;
    const Shard along = shard == Shard::rows ? Shard::cols : Shard::none;
    if (bias) rows.push_back({name + ".bias", 1, out, Role::bias, along});
  }
};

void add_block(Table& t, const std::string& name, const ModelConfig& m) {
  const i64 C = m.width, D = m.head_dim, F = m.hidden;
  const bool gpt2 = m.gpt2();
  const double std = m.init_std;
  // Each block adds to the residual stream twice: its variance must not grow with their number.
  const double into_residual = std / std::sqrt(2.0 * static_cast<double>(m.layers));

  t.norm(name + ".norm1", C);
  t.matrix(name + ".attn.qkv", m.qkv_width(), C, Shard::rows, std, gpt2 || m.qkv_bias);
  if (m.qk_norm)
    for (const char* which : {".attn.q_norm", ".attn.k_norm"})
      t.rows.push_back({.name = name + which, .cols = D, .role = Role::gain});
  t.matrix(name + ".attn.out", C, m.heads * D, Shard::cols, into_residual, gpt2);
  t.norm(name + ".norm2", C);
  t.matrix(name + (gpt2 ? ".mlp.up" : ".mlp.gate_up"), gpt2 ? F : 2 * F, C, Shard::rows, std, gpt2);
  t.matrix(name + ".mlp.down", C, F, Shard::cols, into_residual, gpt2);
}

std::string block_name(i64 l) { return "layers." + std::to_string(l); }

}  // namespace

std::vector<ParamSpec> param_specs(const ModelConfig& m) {
  const bool tied = m.tied == 1;
  Table t{.biased = m.gpt2()};
  t.rows.push_back({.name = "embed.token",
                    .rows = m.vocab,
                    .cols = m.width,
                    .role = Role::embedding,
                    .shard = Shard::rows,
                    .init_std = m.init_std,
                    .lookup = !tied,
                    .head = tied});
  if (m.gpt2())
    t.rows.push_back({.name = "embed.position",
                      .rows = m.context,
                      .cols = m.width,
                      .role = Role::position,
                      .init_std = m.init_std});
  for (t.block = 0; t.block < m.layers; ++t.block) add_block(t, block_name(t.block), m);
  t.block = -1;
  t.norm("norm", m.width);
  if (!tied) t.matrix("head", m.vocab, m.width, Shard::rows, m.init_std, false);
  if (!tied) t.rows.back().head = true;
  return std::move(t.rows);
}

Transformer::Transformer(const ModelConfig& m, parallel::ParamSet& p)
    : config_(m),
      stack_{.embed = Embedding::of(p),
             .blocks = {},
             .norm = Norm::of(p, "norm", m.norm_eps),
             .head = Head::of(p, m)} {
  for (i64 l = 0; l < m.layers; ++l) stack_.blocks.push_back(Block::of(p, block_name(l), m));
  if (m.tied == 1) tied_grad_ = p.at("embed.token").grad;
}

void Transformer::take_state(Ctx& c, Arena& state, bool training) {
  if (!config_.gpt2()) {
    const Tensor angles = state.take(
        "rotation angles", c.recipe.master,
        padded_time(config_.context, numerics::time_multiple(c.recipe)), config_.head_dim);
    c.k.pointwise.rope_angles(c.q, angles, config_.rope_theta);
    for (Block& b : stack_.blocks) b.attention.angles = angles;
  }
  if (!training || tied_grad_.empty()) return;
  second_grad_ =
      state.take("tied embedding's second gradient", c.recipe.master, config_.vocab, config_.width);
  c.k.pointwise.zero(c.q, second_grad_);
  stack_.embed.dtoken = second_grad_;
}

void Transformer::train(Ctx& c, const Batch& b, const Tensor& loss_sum, Recompute r) const {
  const Frame kept(c.keep), frame(c.temp);
  const auto stream = [&](Arena& a, const char* what) {
    return a.take(what, c.recipe.residual, b.rows(), config_.width);
  };
  std::vector<Block::Saved> saved(stack_.blocks.size());
  Tensor x = stream(c.keep, "residual stream");
  stack_.embed.forward(c, x, b);
  for (std::size_t l = 0; l < saved.size(); ++l) {
    saved[l].x = x;
    x = stream(c.keep, "residual stream");
    stack_.blocks[l].forward(c, x, saved[l], b.places(), r);
  }
  const Tensor dx = stream(c.temp, "d residual stream");
  {
    const Frame last(c.keep), head(c.temp);
    Norm::Saved s;
    stack_.norm.forward(c, s, x);
    const Tensor dy = c.temp.take("d norm outputs", s.y.type, x.rows, x.cols);
    stack_.head.loss(c, dy, s.y, b.targets, loss_sum);
    stack_.norm.backward(c, dx, dy, x, s, false);
  }
  for (std::size_t l = saved.size(); l-- > 0;) {
    const Frame again(c.temp);
    stack_.blocks[l].restore(c, saved[l], b.places(), r);
    stack_.blocks[l].backward(c, dx, saved[l], b.places());
  }
  stack_.embed.backward(c, dx, b);
}

void Transformer::finish_gradients(Ctx& c) const {
  if (second_grad_.empty()) return;
  c.k.pointwise.add(c.q, tied_grad_, second_grad_);
  c.k.pointwise.zero(c.q, second_grad_);
}

Tensor Transformer::features(Ctx& c, const Batch& b) const {
  Ctx dropped = c.passing();
  const Tensor x = c.temp.take("residual stream", c.recipe.residual, b.rows(), config_.width);
  stack_.embed.forward(c, x, b);
  for (const Block& block : stack_.blocks) {
    Block::Saved s;
    s.x = x;
    block.forward(c, x, s, b.places(), Recompute::block);
  }
  Norm::Saved s;
  stack_.norm.forward(dropped, s, x);
  return s.y;
}

void Transformer::evaluate(Ctx& c, const Batch& b, const Tensor& loss_sum) const {
  const Frame frame(c.temp);
  stack_.head.loss(c, {}, features(c, b), b.targets, loss_sum);
}

void Transformer::logits(Ctx& c, const Batch& b, const Tensor& out) const {
  const Frame frame(c.temp);
  stack_.head.out.forward(c, out, features(c, b));
}

}  // namespace lathe::model
