#include "lathe/kernels/pointwise.h"

#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <iterator>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/kernels/math.h"
#include "lathe/kernels/pointwise_rows.h"
#include "tests/kernels/row_case.h"

namespace lathe::kernels {
namespace {

constexpr DType kBoth[] = {kF32, kBf16};

/// Two rows of a batch; in each, documents start at 0 and in the middle.
struct Tokens {
  explicit Tokens(i64 time) : at{nullptr, 2, time} {
    for (i64 r = 0; r < 2 * time; ++r) {
      const i64 t = r % time, middle = time / 2;
      start.push_back(static_cast<i32>(t < middle ? 0 : middle));
      ids.push_back(static_cast<i32>((r * 7 + t) % 11));
    }
    at.doc_start = start.data();
  }
  std::vector<i32> start, ids;
  Places at;
};

Run activations(i64 R, i64 C, DType in, DType out) {
  return [=](const Kernels& k, Queue& q) {
    Matrix x(in, R, C, 3), two(in, R, 2 * C, 1), dy(out, R, C, 2);
    x.fill(1, 3), two.fill(2, 3), dy.fill(3);
    Matrix y(out, R, C, 1), dx(in, R, C), gated(out, R, C), dtwo(in, R, 2 * C, 4);
    k.pointwise.gelu_forward(q, y.view(), x.view());
    k.pointwise.gelu_backward(q, dx.view(), dy.view(), x.view());
    k.pointwise.swiglu_forward(q, gated.view(), two.view());
    k.pointwise.swiglu_backward(q, dtwo.view(), dy.view(), two.view());
    return std::vector{y, dx, gated, dtwo};
  };
}

Run plain_work(i64 R, i64 C, i64 gap, DType in, DType out) {
  return [=](const Kernels& k, Queue& q) {
    Matrix x(in, R, C, gap), copy(out, R, C, gap), sum(out, R, C, gap), sums(kF32, 1, C);
    x.fill(1), sum.fill(2), sums.fill(3);
    Matrix nothing = sum;
    k.pointwise.convert(q, copy.view(), x.view());
    k.pointwise.add(q, sum.view(), x.view());
    k.pointwise.add_column_sums(q, sums.view(), x.view());
    k.pointwise.zero(q, nothing.view());
    return std::vector{copy, sum, sums, nothing};
  };
}

Run rotations(i64 time, i64 D, DType type) {
  return [=](const Kernels& k, Queue& q) {
    const Tokens tokens(time);
    Matrix x(type, 2 * time, 3 * D, 5), angles(kF32, time + 2, D);
    x.fill(1);
    k.pointwise.rope_angles(q, angles.view(), 10000);
    k.pointwise.rope(q, x.view(), 2, D, angles.view(), tokens.at, 2, 1);
    return std::vector{angles, x};
  };
}

Run embeddings(i64 time, i64 C, DType table, DType out, bool positions) {
  return [=](const Kernels& k, Queue& q) {
    const Tokens tokens(time);
    Matrix token(table, 11, C, 1), position(table, time, C), y(out, 2 * time, C, 2);
    token.fill(1), position.fill(2);
    Matrix dtoken(kF32, 11, C, 1), dposition(kF32, time, C), dy(out, 2 * time, C);
    dtoken.fill(3), dposition.fill(4), dy.fill(5);
    const Tensor none{};
    k.pointwise.embed_forward(q, y.view(), tokens.ids.data(), token.view(),
                              positions ? position.view() : none, tokens.at);
    k.pointwise.embed_backward(q, dtoken.view(), positions ? dposition.view() : none,
                               tokens.ids.data(), dy.view(), tokens.at);
    return std::vector{y, dtoken, dposition};
  };
}

TEST(Pointwise, GivesTheSameBitsInEveryTable) {
  for (i64 C = 1; C <= kLongest; ++C)
    for (const DType in : kBoth)
      for (const DType out : kBoth) {
        expect_same_in_every_table(activations(3, C, in, out));
        expect_same_in_every_table(plain_work(3, C, C % 3, in, out));
        expect_same_in_every_table(embeddings(3, C, in, out, C % 2 == 0));
      }
  for (i64 D = 2; D <= 80; D += 2)
    for (const DType type : kBoth) expect_same_in_every_table(rotations(5, D, type));
}

/// NaNs are all alike: which one comes out is not promised.
void forget_which_nan(Matrix& m) {
  for (i64 r = 0; r < m.rows(); ++r)
    for (i64 c = 0; c < m.cols(); ++c)
      if (std::isnan(m.at(r, c))) m.set(r, c, std::nan(""));
}

TEST(Pointwise, ActivationsAgreeOnEveryBf16) {
  expect_same_in_every_table([](const Kernels& k, Queue& q) {
    const i64 n = 1 << 16;
    std::vector<u16> codes;
    for (i64 i = 0; i < n; ++i) codes.push_back(static_cast<u16>(i));
    const Tensor x{codes.data(), kBf16, 1, n, n}, gates{codes.data(), kBf16, 1, n, n};
    Matrix ones(kF32, 1, n), y(kF32, 1, n), dx(kF32, 1, n), gated(kF32, 1, n / 2);
    Matrix dgates(kF32, 1, n);
    ones.fill_with(1);
    k.pointwise.gelu_forward(q, y.view(), x);
    k.pointwise.gelu_backward(q, dx.view(), ones.view(), x);
    k.pointwise.swiglu_forward(q, gated.view(), gates);
    k.pointwise.swiglu_backward(q, dgates.view(), ones.view().slice_cols(0, n / 2), gates);
    std::vector all{y, dx, gated, dgates};
    for (Matrix& m : all) forget_which_nan(m);
    return all;
  });
}

TEST(Pointwise, GivesTheSameBitsForAnyNumberOfThreads) {
  expect_same_for_any_threads(activations(3, 20000, kBf16, kBf16));
  expect_same_for_any_threads(plain_work(11, 4000, 0, kF32, kBf16));
  expect_same_for_any_threads(plain_work(2, 20000, 1, kBf16, kF32));
  expect_same_for_any_threads(rotations(150, 64, kBf16));
  expect_same_for_any_threads(embeddings(90, 300, kF32, kF32, true));
}

TEST(Pointwise, CuttingTheRowsInTwoChangesNoBitOfAColumnSum) {
  Queue q(1);
  for (const Candidate& c : candidates()) {
    if (!c.why_not.empty()) continue;
    const Tokens tokens(6);
    Matrix dy(kBf16, 12, 150), token(kF32, 11, 150), position(kF32, 6, 150), sums(kF32, 1, 150);
    dy.fill(1), token.fill(2), position.fill(3), sums.fill(4);
    Matrix token2 = token, position2 = position, sums2 = sums;
    const auto add = [&](Matrix& t, Matrix& p, Matrix& s, i64 begin, i64 batch) {
      const Tensor rows = dy.view().slice_rows(begin, batch * 6);
      c.table->pointwise.embed_backward(q, t.view(), p.view(), tokens.ids.data() + begin, rows,
                                        {tokens.start.data() + begin, batch, 6});
      c.table->pointwise.add_column_sums(q, s.view(), rows);
    };
    add(token, position, sums, 0, 2);
    add(token2, position2, sums2, 0, 1);
    add(token2, position2, sums2, 6, 1);
    EXPECT_TRUE(token == token2 && position == position2 && sums == sums2) << c.table->name;
  }
}

TEST(Pointwise, ConvertRoundsAsToBf16DoesAndKeepsSubnormals) {
  Queue q(1);
  const u32 edges[] = {0x00000001, 0x00007fff, 0x00008000, 0x00008001, 0x00018000, 0x007fffff,
                       0x80000001, 0x80018000, 0x3f808000, 0x3f818000, 0x3f818001, 0x7f7fffff,
                       0x7f800000, 0xff800000, 0x7f800001, 0xffc12345, 0x00000000, 0x80000000};
  const i64 n = std::size(edges);
  std::vector<bf16> out(static_cast<std::size_t>(n));
  for (const Candidate& c : candidates()) {
    if (!c.why_not.empty()) continue;
    c.table->pointwise.convert(q, tensor(out.data(), 1, n),
                               tensor(reinterpret_cast<const float*>(edges), 1, n));
    for (i64 i = 0; i < n; ++i) {
      const bf16 h = out[static_cast<std::size_t>(i)];
      EXPECT_EQ(h.bits, to_bf16(std::bit_cast<float>(edges[i])).bits) << c.table->name << ' ' << i;
    }
  }
}

TEST(Pointwise, ConvertGoesBetweenAllTypes) {
  Queue q(1);
  for (const Candidate& c : candidates()) {
    if (!c.why_not.empty()) continue;
    for (const DType in : {kF32, kBf16, kF64})
      for (const DType out : {kF32, kBf16, kF64}) {
        Matrix x(in, 2, 35, 1), y(out, 2, 35);
        for (i64 i = 0; i < 70; ++i) x.set(i / 35, i % 35, static_cast<double>(i - 30));
        c.table->pointwise.convert(q, y.view(), x.view());
        for (i64 i = 0; i < 70; ++i) EXPECT_EQ(y.at(i / 35, i % 35), static_cast<double>(i - 30));
      }
  }
}

TEST(Pointwise, GradientsMayOverwriteWhatTheyComeFrom) {
  Queue q(1);
  for (const Candidate& c : candidates()) {
    if (!c.why_not.empty()) continue;
    Matrix x(kBf16, 3, 90), dy(kBf16, 3, 45), dx(kBf16, 3, 90), half(kBf16, 3, 45), d(kBf16, 3, 45);
    x.fill(1), dy.fill(2), half.fill(3);
    c.table->pointwise.gelu_backward(q, d.view(), dy.view(), half.view());
    c.table->pointwise.swiglu_backward(q, dx.view(), dy.view(), x.view());
    c.table->pointwise.swiglu_backward(q, x.view(), dy.view(), x.view());
    c.table->pointwise.gelu_backward(q, dy.view(), dy.view(), half.view());
    EXPECT_TRUE(x == dx && dy == d) << c.table->name;
  }
}

TEST(Pointwise, RotationStartsAnewWithEachDocumentAndTurnsBack) {
  Queue q(1);
  for (const Candidate& c : candidates()) {
    if (!c.why_not.empty()) continue;
    const Tokens tokens(8);
    Matrix x(kF32, 16, 64), angles(kF32, 8, 32);
    x.fill(1);
    const Matrix before = x;
    c.table->pointwise.rope_angles(q, angles.view(), 100);
    c.table->pointwise.rope(q, x.view(), 1, 32, angles.view(), tokens.at, 0, 1);
    for (i64 r = 0; r < 16; ++r) {
      const auto place = static_cast<double>(r % 8 - tokens.start[static_cast<std::size_t>(r)]);
      for (i64 i = 0; i < 16; ++i) {
        const double angle = place * std::pow(100, -2.0 * static_cast<double>(i) / 32);
        const double a = before.at(r, i), b = before.at(r, i + 16);
        // cos and sin are rounded once, and so are the two operations after them.
        const double bound = 4 * 0x1p-24 * (std::fabs(a) + std::fabs(b));
        EXPECT_NEAR(x.at(r, i), a * std::cos(angle) - b * std::sin(angle), bound);
        EXPECT_NEAR(x.at(r, i + 16), b * std::cos(angle) + a * std::sin(angle), bound);
        EXPECT_EQ(x.at(r, i + 32), before.at(r, i + 32)) << "columns past the heads";
      }
    }
    c.table->pointwise.rope(q, x.view(), 1, 32, angles.view(), tokens.at, 0, -1);
    for (i64 r = 0; r < 16; ++r)
      for (i64 i = 0; i < 32; ++i) EXPECT_NEAR(x.at(r, i), before.at(r, i), 16 * 0x1p-24 * 4);
  }
}

TEST(Pointwise, EmbeddingLooksUpTokensAndPlacesWithinTheirDocument) {
  Queue q(1);
  const Tokens tokens(6);
  Matrix token(kF32, 11, 20), position(kF32, 6, 20), y(kF32, 12, 20);
  for (i64 c = 0; c < 20; ++c) {
    for (i64 v = 0; v < 11; ++v) token.set(v, c, static_cast<double>(100 * v + c));
    for (i64 t = 0; t < 6; ++t) position.set(t, c, static_cast<double>(10000 * t));
  }
  for (const Candidate& k : candidates()) {
    if (!k.why_not.empty()) continue;
    k.table->pointwise.embed_forward(q, y.view(), tokens.ids.data(), token.view(), position.view(),
                                     tokens.at);
    Matrix dtoken(kF32, 11, 20), dposition(kF32, 6, 20), right_token = dtoken,
                                                         right_position = dposition;
    k.table->pointwise.embed_backward(q, dtoken.view(), dposition.view(), tokens.ids.data(),
                                      y.view(), tokens.at);
    for (i64 r = 0; r < 12; ++r) {
      const i64 id = tokens.ids[static_cast<std::size_t>(r)];
      const i64 place = r % 6 - tokens.start[static_cast<std::size_t>(r)];
      for (i64 c = 0; c < 20; ++c) {
        const auto want = static_cast<double>(100 * id + c + 10000 * place);
        EXPECT_EQ(y.at(r, c), want);
        right_token.set(id, c, right_token.at(id, c) + want);
        right_position.set(place, c, right_position.at(place, c) + want);
      }
    }
    EXPECT_TRUE(dtoken == right_token && dposition == right_position) << k.table->name;
  }
}

using Complex = std::complex<double>;
using Lane = Plain<Complex>;

TEST(Pointwise, ActivationGradientsAreThoseOfTheFormulas) {
  Queue q(1);
  const i64 C = 51;
  Matrix x(kF64, 1, C), dx = x, two(kF64, 1, 2 * C), dtwo = two, dy = x;
  x.fill(1, 2), two.fill(2, 2), dy.fill(3);
  ref().pointwise.gelu_backward(q, dx.view(), dy.view(), x.view());
  ref().pointwise.swiglu_backward(q, dtwo.view(), dy.view(), two.view());
  for (i64 i = 0; i < C; ++i) {
    const Complex moved(x.at(0, i), kStep), g(two.at(0, i)), u(two.at(0, i + C)), h(0, kStep);
    EXPECT_NEAR(dx.at(0, i), dy.at(0, i) * gelu(Lane::broadcast(moved)).lane0().imag() / kStep,
                kGradientBound);
    const auto slope = [&](Complex gate, Complex up) {
      Complex y;
      swiglu_part<Lane>(&y, &gate, &up, 1);
      return dy.at(0, i) * y.imag() / kStep;
    };
    EXPECT_NEAR(dtwo.at(0, i), slope(g + h, u), kGradientBound);
    EXPECT_NEAR(dtwo.at(0, i + C), slope(g, u + h), kGradientBound);
  }
}

TEST(Pointwise, TurningBackIsTheGradientOfTurning) {
  Queue q(1);
  const i64 D = 38;
  const i32 start = 0;
  Matrix angles(kF64, 6, D), d(kF64, 1, D);
  d.fill(1);
  const Matrix dy = d;
  ref().pointwise.rope_angles(q, angles.view(), 50);
  ref().pointwise.rope(q, d.view(), 1, D, angles.view(), {&start, 1, 1}, 5, -1);
  std::vector<Complex> turn;
  for (i64 i = 0; i < D; ++i) turn.emplace_back(angles.at(5, i));
  for (i64 i = 0; i < D; ++i) {
    std::vector<Complex> x(static_cast<std::size_t>(D), Complex(1));
    x[static_cast<std::size_t>(i)] += Complex(0, kStep);
    rotate_head<Lane>(x.data(), D / 2, turn.data(), Complex(1));
    double slope = 0;
    for (i64 j = 0; j < D; ++j)
      slope += dy.at(0, j) * x[static_cast<std::size_t>(j)].imag() / kStep;
    EXPECT_NEAR(d.at(0, i), slope, kGradientBound);
  }
}

}  // namespace
}  // namespace lathe::kernels
