// The whole model's gradient against differences of its loss, in FP64.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/model/config.h"
#include "lathe/parallel/params.h"
#include "tests/model/rig.h"

namespace lathe::model {
namespace {

/// Moves parameter p to start + s * direction.
void move(Rig& rig, parallel::Param& p, const std::vector<double>& start,
          const std::vector<double>& direction, double s) {
  for (i64 i = 0; i < p.spec.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    Rig::set(p, i / p.spec.cols, i % p.spec.cols, start[at] + s * direction[at]);
  }
  rig.params().refresh_work(rig.queue(), rig.ctx().k);
}

/// Slope of the loss along a direction: the five-point formula, in error by h^4/30 of the fifth
/// derivative.
template <class Loss>
double slope(const Loss& loss, double h) {
  return (8 * (loss(h) - loss(-h)) - (loss(2 * h) - loss(-2 * h))) / (12 * h);
}

// Along a random direction v in each parameter's space, g.v must be the slope. Two step sizes bound
// the error: halving h divides the formula's own error by 16, so the two slopes differ by 15/16 of
// it; and the rounding of a loss summed over n tokens, n u |loss| at most, is divided by h.
void check_gradient(ModelConfig m) {
  m.context = 24;
  RigOptions o{.recipe = "fp64"};
  Rig rig(m, o);
  const Text text(m, 2, 3);
  const double total = rig.learn(text);
  const double rounding = static_cast<double>(text.ids.size()) * 0x1p-53 * total;
  constexpr double kStep = 1e-3;

  for (parallel::Param& p : rig.params().all()) {
    std::vector<double> start, v;
    double expected = 0, norm = 0;
    for (i64 i = 0; i < p.spec.size(); ++i) {
      const i64 r = i / p.spec.cols, c = i % p.spec.cols;
      start.push_back(Rig::get(p.master, r, c));
      v.push_back(Rng{11, Draw::init, static_cast<u64>(p.spec.size())}.normal(static_cast<u64>(i)));
      expected += v.back() * Rig::get(p.grad, r, c);
      norm += v.back() * v.back();
    }
    for (double& x : v) x /= std::sqrt(norm);
    expected /= std::sqrt(norm);
    const auto loss = [&](double s) {
      move(rig, p, start, v, s);
      return rig.evaluate(text);
    };
    const double coarse = slope(loss, kStep), fine = slope(loss, kStep / 2);
    move(rig, p, start, v, 0);
    const double bound = std::abs(coarse - fine) + 8 * rounding / kStep;
    EXPECT_NEAR(fine, expected, bound) << p.spec.name;
    // Nothing wrong can hide in the bound.
    EXPECT_LT(bound, 1e-6 * std::max(std::abs(expected), 1e-2 * total)) << p.spec.name;
  }
}

TEST(Gradient, OfALlamaWithEveryOptionIsTheSlopeOfItsLoss) { check_gradient(small_llama()); }
TEST(Gradient, OfATiedLlamaIsTheSlopeOfItsLoss) { check_gradient(small_llama(true)); }
TEST(Gradient, OfAGpt2IsTheSlopeOfItsLoss) { check_gradient(small_gpt2()); }
TEST(Gradient, OfAnUntiedGpt2IsTheSlopeOfItsLoss) { check_gradient(small_gpt2(false)); }

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

// Bound: a gradient hangs on a path of stored tensors, eleven a block (norm, qkv, head norm,
// rotation, shares, heads, stream, norm, mlp inputs, mlp outputs, stream) there and back, and the
// embedding, last norm and logits at the end. Weights this small let no layer amplify, so that each
// adds at most its own rounding, u of what it holds.
TEST(Gradient, OfANarrowRecipeIsThatOfFp64ButForRounding) {
  for (ModelConfig m : {small_llama(), small_llama(true), small_gpt2(), small_gpt2(false)}) {
    m.init_std = 0.1;
    const auto gradient = [&](const char* recipe) {
      Rig rig(m, {.recipe = recipe});
      rig.learn(Text(m, 2, 3));
      return rig.gradients();
    };
    const std::vector<double> exact = gradient("fp64");
    const double path = static_cast<double>(2 * (11 * m.layers + 3));
    EXPECT_LT(distance(gradient("fp32"), exact), path * 0x1p-24) << m.family << m.tied;
    EXPECT_LT(distance(gradient("bf16"), exact), path * 0x1p-9) << m.family << m.tied;
  }
}

}  // namespace
}  // namespace lathe::model
