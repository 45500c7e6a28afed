#include "lathe/kernels/update.h"

#include <cmath>
#include <limits>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "tests/kernels/row_case.h"

namespace lathe::kernels {
namespace {

constexpr AdamW kStepTwo{.lr = 1e-3,
                         .beta1 = 0.9,
                         .beta2 = 0.95,
                         .eps = 1e-8,
                         .weight_decay = 0.1,
                         .correction1 = 1 - 0.9 * 0.9,
                         .correction2 = 1 - 0.95 * 0.95,
                         .grad_scale = 1.0 / 37};

struct State {
  Matrix w, m, v, grad;
};

State state(DType type, i64 R, i64 C) {
  State s{Matrix(type, R, C), Matrix(type, R, C), Matrix(type, R, C), Matrix(type, R, C)};
  s.w.fill(1), s.m.fill(2, 1e-3), s.grad.fill(3);
  for (i64 r = 0; r < R; ++r)
    for (i64 c = 0; c < C; ++c) s.v.set(r, c, std::pow(s.m.at(r, c), 2) * 1.5);
  return s;
}

void plain_adamw(const Kernels& k, Queue& q, State& s) {
  k.update.adamw(q, s.w.view(), {.values = s.m.view()}, {.values = s.v.view()}, s.grad.view(),
                 kStepTwo, {});
}

Run adamw(i64 R, i64 C) {
  return [=](const Kernels& k, Queue& q) {
    State s = state(kF32, R, C);
    plain_adamw(k, q, s);
    return std::vector{s.w, s.m, s.v};
  };
}

Run squares(DType type, i64 R, i64 C, i64 gap) {
  return [=](const Kernels& k, Queue& q) {
    Matrix x(type, R, C, gap), sum(kF64, 1, 1);
    x.fill(1);
    sum.fill_with(99);
    k.update.sum_squares(q, sum.view(), x.view());
    return std::vector{sum};
  };
}

TEST(Update, GivesTheSameBitsInEveryTable) {
  for (i64 C = 1; C <= kLongest; ++C)
    for (const i64 gap : {0, 3}) {
      expect_same_in_every_table(adamw(3, C));
      for (const DType t : {kF32, kBf16, kF64}) expect_same_in_every_table(squares(t, 3, C, gap));
    }
  expect_same_in_every_table(squares(kF32, 1, 40000, 0));
}

TEST(Update, GivesTheSameBitsForAnyNumberOfThreads) {
  expect_same_for_any_threads(adamw(7, 9000));
  expect_same_for_any_threads(squares(kF32, 7, 40001, 0));
  expect_same_for_any_threads(squares(kF32, 401, 999, 0));
}

// Relative to A = (|beta1 m| + |(1 - beta1) g|) / correction1 / (sqrt(v') + eps), in units of
// u = 2^-24: the first moment is off by 5, its correction by 2, the denominator by 8 (half of the
// second moment's 10, the root, eps, the addition), the quotient by 1, what the decay adds by 2,
// the rate by 1. That is 19; the last subtraction rounds the weight once.
TEST(Update, AdamWStaysWithinItsRoundings) {
  Queue q(1);
  const AdamW& a = kStepTwo;
  const State before = state(kF32, 5, 101);
  State s = before;
  plain_adamw(ref(), q, s);
  const double u = 0x1p-24;
  for (i64 r = 0; r < 5; ++r)
    for (i64 c = 0; c < 101; ++c) {
      const double g = before.grad.at(r, c) * a.grad_scale, w = before.w.at(r, c);
      const double old = a.beta1 * before.m.at(r, c), fresh = (1 - a.beta1) * g;
      const double m = old + fresh, v = a.beta2 * before.v.at(r, c) + (1 - a.beta2) * g * g;
      const double below = std::sqrt(v / a.correction2) + a.eps;
      const double want = w - a.lr * (a.weight_decay * w + m / a.correction1 / below);
      const double size = (std::fabs(old) + std::fabs(fresh)) / a.correction1 / below;
      EXPECT_NEAR(s.m.at(r, c), m, 5 * u * (std::fabs(old) + std::fabs(fresh)));
      EXPECT_NEAR(s.v.at(r, c), v, 8 * u * v);
      EXPECT_NEAR(s.w.at(r, c), want,
                  a.lr * 20 * u * (size + a.weight_decay * std::fabs(w)) + u * std::fabs(want));
    }
}

TEST(Update, AdamWInDoubleIsTheFormula) {
  Queue q(1);
  const AdamW& a = kStepTwo;
  const State before = state(kF64, 2, 19);
  State s = before;
  plain_adamw(ref(), q, s);
  for (i64 c = 0; c < 19; ++c) {
    const double g = before.grad.at(1, c) * a.grad_scale, w = before.w.at(1, c);
    const double m = a.beta1 * before.m.at(1, c) + (1 - a.beta1) * g;
    const double v = a.beta2 * before.v.at(1, c) + (1 - a.beta2) * g * g;
    const double want = w - a.lr * (a.weight_decay * w +
                                    m / a.correction1 / (std::sqrt(v / a.correction2) + a.eps));
    EXPECT_NEAR(s.w.at(1, c), want, 20 * 0x1p-53 * (std::fabs(w) + 1));
  }
}

TEST(Update, SquaresOfWholeNumbersSumExactly) {
  Queue q(1);
  for (const Candidate& t : candidates()) {
    if (!t.why_not.empty()) continue;
    Matrix x(kF32, 300, 113), sum(kF64, 1, 1);
    double right = 0;
    for (i64 r = 0; r < 300; ++r)
      for (i64 c = 0; c < 113; ++c) {
        const auto value = static_cast<double>((r * 113 + c) % 4001 - 2000);
        x.set(r, c, value);
        right += value * value;
      }
    t.table->update.sum_squares(q, sum.view(), x.view());
    EXPECT_EQ(sum.at(0, 0), right) << t.table->name;
  }
}

TEST(Update, SumOfSquaresDependsOnTheShapeAndNotOnTheStride) {
  Queue q(1);
  Matrix tight(kF32, 60, 700), loose(kF32, 60, 700, 5), a(kF64, 1, 1), b(kF64, 1, 1);
  tight.fill(1);
  loose.fill(2);
  for (i64 r = 0; r < 60; ++r)
    for (i64 c = 0; c < 700; ++c) loose.set(r, c, tight.at(r, c));
  ref().update.sum_squares(q, a.view(), tight.view());
  ref().update.sum_squares(q, b.view(), loose.view());
  EXPECT_TRUE(a == b);
}

TEST(Update, SumOfSquaresShowsWhatIsNotFinite) {
  Queue q(1);
  for (const Candidate& t : candidates()) {
    if (!t.why_not.empty()) continue;
    Matrix x(kF32, 3, 77), sum(kF64, 1, 1);
    x.fill_with(1);
    x.set(2, 76, std::numeric_limits<double>::infinity());
    t.table->update.sum_squares(q, sum.view(), x.view());
    EXPECT_EQ(sum.at(0, 0), std::numeric_limits<double>::infinity());
    x.set(1, 5, std::nan(""));
    t.table->update.sum_squares(q, sum.view(), x.view());
    EXPECT_TRUE(std::isnan(sum.at(0, 0)));
    // Squares that a float could not hold.
    x.fill_with(1e30);
    t.table->update.sum_squares(q, sum.view(), x.view());
    EXPECT_NEAR(sum.at(0, 0), 3 * 77 * 1e60, 1e60 * 1e-4);
  }
}

}  // namespace
}  // namespace lathe::kernels
