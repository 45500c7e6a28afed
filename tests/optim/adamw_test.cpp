#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/update.h"
#include "lathe/numerics/recipe.h"
#include "lathe/optim/optimizer.h"
#include "lathe/parallel/params.h"

namespace lathe::optim {
namespace {

using parallel::ParamSet;
using parallel::ParamSpec;
using parallel::Role;

std::vector<ParamSpec> one_of_each_role() {
  return {{.name = "m", .rows = 3, .cols = 5, .role = Role::matrix},
          {.name = "e", .rows = 4, .cols = 2, .role = Role::embedding},
          {.name = "p", .rows = 2, .cols = 2, .role = Role::position},
          {.name = "g", .rows = 1, .cols = 7, .role = Role::gain},
          {.name = "b", .rows = 1, .cols = 6, .role = Role::bias}};
}

/// A small set of parameters in FP64 with an optimizer over it.
struct Fixture {
  Arena weights{"weights", 1 << 16}, grads{"gradients", 1 << 16}, state{"state", 1 << 16};
  Queue q{1};
  const kernels::Kernels& k = kernels::ref();
  ParamSet params{one_of_each_role(), numerics::recipe("fp64"), weights, &grads};
  std::unique_ptr<Optimizer> optimizer;

  explicit Fixture(const AdamWConfig& c) : optimizer(adamw(c, params, state)) {
    params.init(1);
    for (parallel::Param& p : params.all())
      for (i64 i = 0; i < p.spec.size(); ++i) {
        p.master.row<double>(0)[i] = std::sin(static_cast<double>(3 * i + p.spec.rows));
        p.grad.row<double>(0)[i] = std::cos(static_cast<double>(5 * i + p.spec.cols));
      }
    optimizer->reset(q, k);
  }
};

TEST(AdamW, FollowsThePaperOverSeveralSteps) {
  const AdamWConfig c{.beta1 = 0.8, .beta2 = 0.9, .eps = 1e-6, .weight_decay = 0.1};
  Fixture f(c);
  const double lr = 0.01, scale = 0.5;
  std::vector<double> w, m(15, 0.0), v(15, 0.0), g;
  const parallel::Param& p = f.params.at("m");
  for (i64 i = 0; i < 15; ++i) {
    w.push_back(p.master.row<double>(0)[i]);
    g.push_back(p.grad.row<double>(0)[i] * scale);
  }
  for (i64 step = 1; step <= 5; ++step) {
    f.optimizer->update(f.q, f.k, f.params, step, lr, scale);
    for (std::size_t i = 0; i < 15; ++i) {
      m[i] = 0.8 * m[i] + 0.2 * g[i];
      v[i] = 0.9 * v[i] + 0.1 * g[i] * g[i];
      const double m_hat = m[i] / (1 - std::pow(0.8, step)),
                   v_hat = v[i] / (1 - std::pow(0.9, step));
      w[i] -= lr * (0.1 * w[i] + m_hat / (std::sqrt(v_hat) + 1e-6));
    }
  }
  // Weights below 1 after 5 steps of some ten rounded operations each; the last two products are
  // scaled by lr.
  const double bound = 5 * 20 * 0x1p-53;
  for (i64 i = 0; i < 15; ++i)
    EXPECT_NEAR(p.master.row<double>(0)[i], w[static_cast<std::size_t>(i)], bound) << i;
}

TEST(AdamW, DecaysMatricesAndEmbeddingsOnly) {
  Fixture f({.weight_decay = 0.25});
  f.params.zero_grads(f.q, f.k);
  std::vector<double> before;
  for (const parallel::Param& p : f.params.all()) before.push_back(p.master.row<double>(0)[1]);
  f.optimizer->update(f.q, f.k, f.params, 1, 0.5, 1);
  for (i64 i = 0; i < f.params.count(); ++i) {
    const double old = before[static_cast<std::size_t>(i)];
    const bool decays = i < 2;
    // lr and decay are powers of two: the products are exact.
    EXPECT_EQ(f.params[i].master.row<double>(0)[1], decays ? old - 0.125 * old : old)
        << f.params[i].spec.name;
  }
}

TEST(AdamW, ScalesEveryGradientFirst) {
  Fixture whole({}), halves({});
  for (parallel::Param& p : halves.params.all())
    for (i64 i = 0; i < p.spec.size(); ++i) p.grad.row<double>(0)[i] *= 2;
  whole.optimizer->update(whole.q, whole.k, whole.params, 1, 0.1, 1);
  halves.optimizer->update(halves.q, halves.k, halves.params, 1, 0.1, 0.5);
  for (i64 n = 0; n < whole.params.count(); ++n)
    for (i64 i = 0; i < whole.params[n].spec.size(); ++i)
      EXPECT_EQ(whole.params[n].master.row<double>(0)[i],
                halves.params[n].master.row<double>(0)[i]);
}

TEST(AdamW, NamesItsStateAfterTheParameters) {
  Fixture f({});
  const auto state = f.optimizer->state();
  ASSERT_EQ(state.size(), 10u);
  EXPECT_EQ(state[0].first, "m.m");
  EXPECT_EQ(state[1].first, "m.v");
  EXPECT_EQ(state[9].first, "b.v");
  EXPECT_EQ(state[2].second.rows, 4);
  EXPECT_EQ(state[2].second.type, DType::f64);
}

TEST(AdamW, KeepsSmallParametersAndEmbeddingsOutOfDynamicMaps) {
  using kernels::MomentKind;
  const auto kind = [](MomentKind moments, i64 rows, Role role) {
    return moment_kind({.moments = moments}, {.name = "x", .rows = rows, .cols = 64, .role = role});
  };
  EXPECT_EQ(kind(MomentKind::dynamic, 64, Role::matrix), MomentKind::dynamic);
  EXPECT_EQ(kind(MomentKind::dynamic, 63, Role::matrix), MomentKind::plain);
  EXPECT_EQ(kind(MomentKind::dynamic, 6400, Role::embedding), MomentKind::plain);
  EXPECT_EQ(kind(MomentKind::dynamic, 6400, Role::position), MomentKind::plain);
  EXPECT_EQ(kind(MomentKind::expanded, 1, Role::embedding), MomentKind::expanded);
  EXPECT_EQ(kind(MomentKind::bf16, 1, Role::gain), MomentKind::bf16);
}

/// Names and bytes of an optimizer's state.
std::vector<std::pair<std::string, i64>> state_bytes(kernels::MomentKind moments) {
  Arena weights("weights", 1 << 20), grads("gradients", 1 << 20), state("state", 1 << 20);
  ParamSet params({{.name = "m", .rows = 80, .cols = 52, .role = Role::matrix}},
                  numerics::recipe("bf16"), weights, &grads);
  std::vector<std::pair<std::string, i64>> all;
  for (const auto& [name, t] : adamw({.moments = moments}, params, state)->state())
    all.emplace_back(name, t.bytes());
  return all;
}

TEST(AdamW, NamesItsScalesToo) {
  using kernels::MomentKind;
  using Bytes = std::vector<std::pair<std::string, i64>>;
  constexpr i64 kSize = 80 * 52;  // 4160: 17 blocks of 256, 33 groups of 128
  EXPECT_EQ(state_bytes(MomentKind::bf16), (Bytes{{"m.m", 2 * kSize}, {"m.v", 2 * kSize}}));
  EXPECT_EQ(
      state_bytes(MomentKind::dynamic),
      (Bytes{{"m.m", kSize}, {"m.m.scales", 17 * 4}, {"m.v", kSize}, {"m.v.scales", 17 * 4}}));
  EXPECT_EQ(
      state_bytes(MomentKind::expanded),
      (Bytes{{"m.m", kSize}, {"m.m.scales", 33 * 12}, {"m.v", kSize}, {"m.v.scales", 33 * 12}}));
}

/// Weights in BF16 after one step that moves each by less than half of its last place.
std::vector<u16> stepped(u64 seed, i64 step, const char* name) {
  Arena weights("weights", 1 << 20), grads("gradients", 1 << 20), state("state", 1 << 20);
  Queue q(1);
  ParamSet params({{.name = name, .rows = 8, .cols = 64, .role = Role::matrix}},
                  numerics::recipe("bf16"), weights, &grads, {.bf16_weights = true});
  const auto optimizer = adamw({.weight_decay = 0, .seed = seed}, params, state);
  optimizer->reset(q, kernels::ref());
  const parallel::Param& p = params[0];
  for (i64 i = 0; i < p.spec.size(); ++i) {
    p.master.row<bf16>(0)[i] = {0x3f80};
    p.grad.row<float>(0)[i] = 1;
  }
  optimizer->update(q, kernels::ref(), params, step, 1e-3, 1);
  std::vector<u16> bits;
  for (i64 i = 0; i < p.spec.size(); ++i) bits.push_back(p.master.row<bf16>(0)[i].bits);
  return bits;
}

TEST(AdamW, DrawsAnewForEverySeedStepAndParameterAndForNothingElse) {
  const std::vector<u16> one = stepped(1, 3, "a");
  EXPECT_EQ(stepped(1, 3, "a"), one);
  EXPECT_NE(stepped(2, 3, "a"), one);
  EXPECT_NE(stepped(1, 4, "a"), one);
  EXPECT_NE(stepped(1, 3, "b"), one);
}

TEST(AdamW, ResetForgetsEveryMoment) {
  Fixture f({});
  f.optimizer->update(f.q, f.k, f.params, 1, 0.1, 1);
  EXPECT_NE(f.optimizer->state()[0].second.row<double>(0)[0], 0);
  f.optimizer->reset(f.q, f.k);
  for (const auto& [name, t] : f.optimizer->state())
    for (i64 i = 0; i < t.size(); ++i) EXPECT_EQ(t.row<double>(0)[i], 0) << name;
}

}  // namespace
}  // namespace lathe::optim
