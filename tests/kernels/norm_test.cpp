#include "lathe/kernels/norm.h"

#include <cmath>
#include <complex>
#include <cstddef>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/kernels/norm_rows.h"
#include "tests/kernels/row_case.h"

namespace lathe::kernels {
namespace {

struct Types {
  DType x, y;
};
constexpr Types kTypes[] = {{kF32, kF32}, {kF32, kBf16}, {kBf16, kBf16}, {kBf16, kF32}};

Run rms(i64 R, i64 C, Types t, bool add) {
  return [=](const Kernels& k, Queue& q) {
    Matrix x(t.x, R, C, 3), w(kF32, 1, C), dy(t.y, R, C, 1);
    x.fill(1), w.fill(2), dy.fill(3);
    Matrix y(t.y, R, C, 5), rstd(kF32, R, 1), dx(t.x, R, C, 2), dw(kF32, 1, C);
    dx.fill(4), dw.fill(5);
    k.norm.rms_forward(q, y.view(), rstd.view(), x.view(), w.view(), 1e-5);
    k.norm.rms_backward(q, dx.view(), dw.view(), dy.view(), x.view(), w.view(), rstd.view(), add);
    return std::vector{y, rstd, dx, dw};
  };
}

Run layer(i64 R, i64 C, Types t, bool add) {
  return [=](const Kernels& k, Queue& q) {
    Matrix x(t.x, R, C, 3), w(kF32, 1, C), b(kF32, 1, C), dy(t.y, R, C, 1);
    x.fill(1), w.fill(2), b.fill(6), dy.fill(3);
    Matrix y(t.y, R, C, 5), mean(kF32, R, 1), rstd(kF32, R, 1), dx(t.x, R, C, 2), dw(kF32, 1, C),
        db(kF32, 1, C);
    dx.fill(4), dw.fill(5), db.fill(7);
    k.norm.layer_forward(q, y.view(), mean.view(), rstd.view(), x.view(), w.view(), b.view(), 1e-5);
    k.norm.layer_backward(q, dx.view(), dw.view(), db.view(), dy.view(), x.view(), w.view(),
                          mean.view(), rstd.view(), add);
    return std::vector{y, mean, rstd, dx, dw, db};
  };
}

TEST(Norm, GivesTheSameBitsInEveryTable) {
  for (i64 C = 1; C <= kLongest; ++C)
    for (const Types t : kTypes) {
      expect_same_in_every_table(rms(3, C, t, C % 2 == 0));
      expect_same_in_every_table(layer(3, C, t, C % 2 == 0));
    }
  expect_same_in_every_table(rms(5, 1000, {kF32, kBf16}, true));
  expect_same_in_every_table(layer(5, 1000, {kF32, kBf16}, true));
}

TEST(Norm, GivesTheSameBitsForAnyNumberOfThreads) {
  expect_same_for_any_threads(rms(131, 500, {kF32, kBf16}, true));
  expect_same_for_any_threads(layer(131, 500, {kF32, kBf16}, true));
}

TEST(Norm, CuttingTheRowsInTwoChangesNoBit) {
  Queue q(1);
  const i64 R = 23, C = 150, half = 9;
  Matrix x(kF32, R, C), w(kF32, 1, C), dy(kBf16, R, C), mean(kF32, R, 1), rstd(kF32, R, 1);
  x.fill(1), w.fill(2), dy.fill(3), mean.fill(4), rstd.fill(5);
  for (const Candidate& c : candidates()) {
    if (!c.why_not.empty()) continue;
    Matrix dx(kF32, R, C), dw(kF32, 1, C), db(kF32, 1, C);
    dw.fill(6), db.fill(7);
    Matrix dx2 = dx, dw2 = dw, db2 = db;
    const auto back = [&](Matrix& to, Matrix& a, Matrix& b, bool layer_norm, i64 begin, i64 count) {
      const auto rows = [&](Matrix& m) { return m.view().slice_rows(begin, count); };
      if (layer_norm)
        c.table->norm.layer_backward(q, rows(to), a.view(), b.view(), rows(dy), rows(x), w.view(),
                                     rows(mean), rows(rstd), false);
      else
        c.table->norm.rms_backward(q, rows(to), a.view(), rows(dy), rows(x), w.view(), rows(rstd),
                                   false);
    };
    for (const bool layer_norm : {false, true}) {
      back(dx, dw, db, layer_norm, 0, R);
      back(dx2, dw2, db2, layer_norm, 0, half);
      back(dx2, dw2, db2, layer_norm, half, R - half);
      EXPECT_TRUE(dx == dx2) << c.table->name;
      EXPECT_TRUE(dw == dw2) << c.table->name;
      EXPECT_TRUE(db == db2) << c.table->name;
    }
  }
}

TEST(Norm, TheOutputMayOverwriteTheInput) {
  Queue q(1);
  for (const Candidate& c : candidates()) {
    if (!c.why_not.empty()) continue;
    Matrix x(kF32, 4, 45), w(kF32, 1, 45), y(kF32, 4, 45), rstd(kF32, 4, 1);
    x.fill(1), w.fill(2);
    c.table->norm.rms_forward(q, y.view(), rstd.view(), x.view(), w.view(), 1e-5);
    c.table->norm.rms_forward(q, x.view(), rstd.view(), x.view(), w.view(), 1e-5);
    EXPECT_TRUE(x == y) << c.table->name;
  }
}

TEST(Norm, WholeNumbersComeOutExact) {
  Queue q(1);
  for (const Candidate& c : candidates()) {
    if (!c.why_not.empty()) continue;
    Matrix x(kF32, 1, 48), w(kF32, 1, 48), b(kF32, 1, 48), y(kF32, 1, 48), mean(kF32, 1, 1),
        rstd(kF32, 1, 1);
    for (i64 i = 0; i < 48; ++i) {
      x.set(0, i, i % 2 ? 6 : 2);
      w.set(0, i, static_cast<double>(i));
      b.set(0, i, 100);
    }
    c.table->norm.layer_forward(q, y.view(), mean.view(), rstd.view(), x.view(), w.view(), b.view(),
                                0);
    EXPECT_EQ(mean.at(0, 0), 4);
    EXPECT_EQ(rstd.at(0, 0), 0.5);
    for (i64 i = 0; i < 48; ++i)
      EXPECT_EQ(y.at(0, i), 100 + (i % 2 ? 1 : -1) * static_cast<double>(i));
    x.fill_with(-4);
    c.table->norm.rms_forward(q, y.view(), rstd.view(), x.view(), w.view(), 0);
    for (i64 i = 0; i < 48; ++i) EXPECT_EQ(y.at(0, i), -static_cast<double>(i));
  }
}

// A sum of C squares goes through ceil(C / 16) fused additions in a lane and 4 in the fold, each
// off by u = 2^-24 of a sum of positive terms; the root halves that, and seven more operations
// round once each.
TEST(Norm, SinglePrecisionStaysWithinItsRoundings) {
  Queue q(1);
  const i64 C = 777;
  Matrix x(kF32, 1, C), w(kF32, 1, C), y(kF32, 1, C), rstd(kF32, 1, 1);
  x.fill(1), w.fill(2);
  ref().norm.rms_forward(q, y.view(), rstd.view(), x.view(), w.view(), 1e-5);
  double squares = 0;
  for (i64 i = 0; i < C; ++i) squares += x.at(0, i) * x.at(0, i);
  const double right = 1 / std::sqrt(squares / static_cast<double>(C) + 1e-5);
  const double roundings = (std::ceil(static_cast<double>(C) / 16) + 4) / 2 + 7;
  for (i64 i = 0; i < C; ++i) {
    const double want = x.at(0, i) * right * w.at(0, i);
    EXPECT_NEAR(y.at(0, i), want, std::fabs(want) * roundings * 0x1p-24);
  }
}

using Complex = std::complex<double>;
using Lane = Plain<Complex>;
constexpr i64 kWidth = 37;

struct Row {
  std::vector<Complex> x, w, b, y;
};

Row complex_row(const Matrix& x, const Matrix& w, const Matrix& b) {
  Row r{{}, {}, {}, std::vector<Complex>(kWidth)};
  for (i64 i = 0; i < kWidth; ++i) {
    r.x.emplace_back(x.at(0, i));
    r.w.emplace_back(w.at(0, i));
    r.b.emplace_back(b.at(0, i));
  }
  return r;
}

/// d(sum of dy y)/d(element i of `part`) for each i, `forward` filling in y.
template <class F>
std::vector<double> slopes(const Row& row, std::vector<Complex> Row::* part, const Matrix& dy,
                           const F& forward) {
  std::vector<double> s;
  for (i64 i = 0; i < kWidth; ++i) {
    Row moved = row;
    (moved.*part)[static_cast<std::size_t>(i)] += Complex(0, kStep);
    forward(moved);
    double slope = 0;
    for (i64 j = 0; j < kWidth; ++j)
      slope += dy.at(0, j) * moved.y[static_cast<std::size_t>(j)].imag() / kStep;
    s.push_back(slope);
  }
  return s;
}

void expect_near(const Matrix& got, const std::vector<double>& want) {
  for (i64 i = 0; i < kWidth; ++i)
    EXPECT_NEAR(got.at(0, i), want[static_cast<std::size_t>(i)], kGradientBound) << i;
}

TEST(Norm, RmsGradientIsThatOfTheFormula) {
  Queue q(1);
  Matrix x(kF64, 1, kWidth), w(kF64, 1, kWidth), dy(kF64, 1, kWidth), y = x, dx = x, dw = x;
  Matrix rstd(kF64, 1, 1);
  x.fill(1), w.fill(2), dy.fill(3);
  ref().norm.rms_forward(q, y.view(), rstd.view(), x.view(), w.view(), 1e-5);
  ref().norm.rms_backward(q, dx.view(), dw.view(), dy.view(), x.view(), w.view(), rstd.view(),
                          false);
  const auto forward = [](Row& r) {
    rms_row<Lane>(r.y.data(), r.x.data(), r.w.data(), kWidth, Complex(1e-5));
  };
  const Row row = complex_row(x, w, w);
  expect_near(dx, slopes(row, &Row::x, dy, forward));
  expect_near(dw, slopes(row, &Row::w, dy, forward));
}

TEST(Norm, LayerGradientIsThatOfTheFormula) {
  Queue q(1);
  Matrix x(kF64, 1, kWidth), w(kF64, 1, kWidth), b(kF64, 1, kWidth), dy(kF64, 1, kWidth);
  Matrix y = x, dx = x, dw = x, db = x, mean(kF64, 1, 1), rstd(kF64, 1, 1);
  x.fill(1), w.fill(2), b.fill(4), dy.fill(3);
  ref().norm.layer_forward(q, y.view(), mean.view(), rstd.view(), x.view(), w.view(), b.view(),
                           1e-5);
  ref().norm.layer_backward(q, dx.view(), dw.view(), db.view(), dy.view(), x.view(), w.view(),
                            mean.view(), rstd.view(), false);
  const auto forward = [](Row& r) {
    layer_row<Lane>(r.y.data(), r.x.data(), r.w.data(), r.b.data(), kWidth, Complex(1e-5));
  };
  const Row row = complex_row(x, w, b);
  expect_near(dx, slopes(row, &Row::x, dy, forward));
  expect_near(dw, slopes(row, &Row::w, dy, forward));
  expect_near(db, slopes(row, &Row::b, dy, forward));
}

}  // namespace
}  // namespace lathe::kernels
