#include "lathe/kernels/loss.h"

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/kernels/loss_rows.h"
#include "tests/kernels/row_case.h"

namespace lathe::kernels {
namespace {

/// A target in every lane as rows go by; every fifth row has none.
std::vector<i32> targets_for(i64 R, i64 vocab) {
  std::vector<i32> t;
  for (i64 r = 0; r < R; ++r)
    t.push_back(r % 5 == 3 ? kNoTarget : static_cast<i32>(r * 13 % vocab));
  return t;
}

Run losses(i64 R, i64 V, i64 vocab, DType gradient) {
  return [=](const Kernels& k, Queue& q) {
    const std::vector<i32> targets = targets_for(R, vocab);
    Matrix x(kF32, R, V, 3), loss(kF32, R, 1), dx(gradient, R, V, 1), total(kF64, 1, 1);
    x.fill(1, 4);
    dx.fill(2);
    total.fill(3);
    k.loss.cross_entropy(q, loss.view(), dx.view(), x.view(), targets.data(), vocab, 1);
    k.loss.add_losses(q, total.view(), loss.view());
    return std::vector{loss, dx, total};
  };
}

TEST(Loss, GivesTheSameBitsInEveryTable) {
  for (i64 V = 1; V <= kLongest; ++V)
    for (const DType t : {kF32, kBf16}) expect_same_in_every_table(losses(7, V, (V + 1) / 2, t));
  for (i64 vocab = 1; vocab <= kLongest; ++vocab)
    expect_same_in_every_table(losses(7, kLongest, vocab, kBf16));
}

TEST(Loss, GivesTheSameBitsForAnyNumberOfThreads) {
  expect_same_for_any_threads(losses(31, 1500, 1499, kBf16));
}

TEST(Loss, TheGradientMayLieOverTheLogits) {
  Queue q(1);
  const i64 R = 6, V = 83, vocab = 77;
  const std::vector<i32> targets = targets_for(R, vocab);
  for (const Candidate& c : candidates()) {
    if (!c.why_not.empty()) continue;
    for (const DType type : {kF32, kBf16}) {
      Matrix x(kF32, R, V), loss(kF32, R, 1), apart(type, R, V), loss2 = loss;
      x.fill(1, 4);
      c.table->loss.cross_entropy(q, loss.view(), apart.view(), x.view(), targets.data(), vocab, 1);
      Tensor over = x.view();
      over.type = type;
      over.stride = V * 4 / size_of(type);
      c.table->loss.cross_entropy(q, loss2.view(), over, x.view(), targets.data(), vocab, 1);
      EXPECT_TRUE(loss == loss2);
      const auto bytes = static_cast<std::size_t>(V * size_of(type));
      for (i64 r = 0; r < R; ++r) {
        const void* right = apart.view().slice_rows(r, 1).data;
        EXPECT_EQ(std::memcmp(over.slice_rows(r, 1).data, right, bytes), 0) << c.table->name << r;
      }
    }
  }
}

TEST(Loss, RowsWithoutATargetAndPaddingAreExactlyZero) {
  Queue q(1);
  const i64 R = 5, V = 50, vocab = 33;
  const std::vector<i32> targets = targets_for(R, vocab);
  for (const Candidate& c : candidates()) {
    if (!c.why_not.empty()) continue;
    Matrix x(kF32, R, V), loss(kF32, R, 1), dx(kBf16, R, V), loss2 = loss, dx2 = dx;
    x.fill(1, 4);
    c.table->loss.cross_entropy(q, loss.view(), dx.view(), x.view(), targets.data(), vocab, 1);
    EXPECT_EQ(loss.at(3, 0), 0);
    for (i64 v = 0; v < V; ++v) EXPECT_EQ(dx.at(3, v), 0);
    for (i64 r = 0; r < R; ++r)
      for (i64 v = vocab; v < V; ++v) {
        EXPECT_EQ(dx.at(r, v), 0);
        x.set(r, v, std::nan(""));  // takes no part
      }
    for (i64 v = 0; v < V; ++v) x.set(3, v, std::nan(""));
    c.table->loss.cross_entropy(q, loss2.view(), dx2.view(), x.view(), targets.data(), vocab, 1);
    EXPECT_TRUE(loss == loss2 && dx == dx2) << c.table->name;
  }
}

TEST(Loss, WithoutAGradientTheLossIsTheSame) {
  Queue q(1);
  const std::vector<i32> targets = targets_for(4, 40);
  for (const Candidate& c : candidates()) {
    if (!c.why_not.empty()) continue;
    Matrix x(kF32, 4, 40), a(kF32, 4, 1), b(kF32, 4, 1), dx(kF32, 4, 40);
    x.fill(1);
    c.table->loss.cross_entropy(q, a.view(), dx.view(), x.view(), targets.data(), 40, 1);
    c.table->loss.cross_entropy(q, b.view(), Tensor{}, x.view(), targets.data(), 40, 1);
    EXPECT_TRUE(a == b) << c.table->name;
  }
}

TEST(Loss, ALargeCommonPartOfTheLogitsChangesNothing) {
  Queue q(1);
  const i32 target = 3;
  Matrix x(kF32, 1, 40), moved = x, a(kF32, 1, 1), b = a, dx = x, dmoved = x;
  for (i64 v = 0; v < 40; ++v) {
    x.set(0, v, static_cast<double>(v % 7));
    moved.set(0, v, static_cast<double>(v % 7) + 1e6);
  }
  ref().loss.cross_entropy(q, a.view(), dx.view(), x.view(), &target, 40, 1);
  ref().loss.cross_entropy(q, b.view(), dmoved.view(), moved.view(), &target, 40, 1);
  EXPECT_TRUE(a == b && dx == dmoved);
}

TEST(Loss, EqualLogitsCostTheLogarithmOfTheirNumber) {
  Queue q(1);
  const i32 target = 17;
  Matrix x(kF32, 1, 64), loss(kF32, 1, 1), dx(kF32, 1, 64);
  x.fill_with(2.5);
  for (const Candidate& c : candidates()) {
    if (!c.why_not.empty()) continue;
    c.table->loss.cross_entropy(q, loss.view(), dx.view(), x.view(), &target, 64, 1);
    EXPECT_NEAR(loss.at(0, 0), std::log(64), 2 * 0x1p-22);  // log is within 2 ulp, here 2^-22 each
    for (i64 v = 0; v < 64; ++v) EXPECT_EQ(dx.at(0, v), v == 17 ? 1.0 / 64 - 1 : 1.0 / 64);
  }
}

TEST(Loss, WhatIsNotFiniteShows) {
  Queue q(1);
  const i32 target = 0;
  for (const Candidate& c : candidates()) {
    if (!c.why_not.empty()) continue;
    for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
      Matrix x(kF32, 1, 40), loss(kF32, 1, 1);
      x.fill(1);
      x.set(0, 21, bad);
      c.table->loss.cross_entropy(q, loss.view(), Tensor{}, x.view(), &target, 40, 1);
      EXPECT_FALSE(std::isfinite(loss.at(0, 0))) << c.table->name;
    }
    // A word that is ruled out is not an accident.
    Matrix x(kF32, 1, 40), loss(kF32, 1, 1);
    x.fill(1);
    x.set(0, 21, -std::numeric_limits<double>::infinity());
    c.table->loss.cross_entropy(q, loss.view(), Tensor{}, x.view(), &target, 40, 1);
    EXPECT_TRUE(std::isfinite(loss.at(0, 0))) << c.table->name;
  }
}

TEST(Loss, TotalsAreAChainInDouble) {
  Queue q(1);
  for (const Candidate& c : candidates()) {
    if (!c.why_not.empty()) continue;
    Matrix loss(kF32, 100, 1), total(kF64, 1, 1), halves(kF64, 1, 1);
    loss.fill(1);
    total.fill_with(5), halves.fill_with(5);
    double right = 5;
    for (i64 r = 0; r < 100; ++r) right += loss.at(r, 0);
    c.table->loss.add_losses(q, total.view(), loss.view());
    c.table->loss.add_losses(q, halves.view(), loss.view().slice_rows(0, 41));
    c.table->loss.add_losses(q, halves.view(), loss.view().slice_rows(41, 59));
    EXPECT_EQ(total.at(0, 0), right);
    EXPECT_EQ(halves.at(0, 0), right);
  }
}

TEST(Loss, GradientIsThatOfTheFormula) {
  using Complex = std::complex<double>;
  using Lane = Plain<Complex>;
  Queue q(1);
  const i64 V = 45, vocab = 43;
  const i32 target = 18;
  Matrix x(kF64, 1, V), loss(kF64, 1, 1), dx = x;
  x.fill(1, 2);
  ref().loss.cross_entropy(q, loss.view(), dx.view(), x.view(), &target, vocab, 1);
  for (i64 i = 0; i < V; ++i) {
    std::vector<Complex> moved;
    for (i64 j = 0; j < V; ++j) moved.emplace_back(x.at(0, j), i == j ? kStep : 0);
    const Complex l = row_loss<Lane>(moved.data(), target, soft_max<Lane>(moved.data(), vocab));
    EXPECT_NEAR(dx.at(0, i), l.imag() / kStep, kGradientBound);
    EXPECT_NEAR(loss.at(0, 0), l.real(), kGradientBound);
  }
}

}  // namespace
}  // namespace lathe::kernels
