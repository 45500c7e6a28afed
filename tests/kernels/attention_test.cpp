#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/numerics/format.h"
#include "tests/kernels/attention_cases.h"

namespace lathe::kernels {
namespace {

/// The formula as a textbook has it, for any scalar: the whole matrix of weights of one head.
template <class S>
std::vector<S> textbook(const Shape& s, const std::vector<i32>& starts, const std::vector<S>& qkv) {
  const i64 d = s.width, group = s.heads / s.kv_heads;
  std::vector<S> out(static_cast<std::size_t>(s.rows() * s.heads * d), S(0));
  const auto at = [&](i64 row, i64 head, i64 c) {
    return qkv[static_cast<std::size_t>(row * s.qkv() + head * d + c)];
  };
  for (i64 b = 0; b < s.batch; ++b)
    for (i64 h = 0; h < s.heads; ++h)
      for (i64 t = 0; t < s.time; ++t) {
        const i64 row = b * s.time, kv = s.heads + h / group;
        i64 lo = starts[static_cast<std::size_t>(row + t)];
        if (s.window > 0) lo = std::max(lo, t - s.window + 1);
        std::vector<S> weight;
        S sum(0);
        for (i64 k = lo; k <= t; ++k) {
          S score(0);
          for (i64 c = 0; c < d; ++c) score += at(row + t, h, c) * at(row + k, kv, c);
          weight.push_back(std::exp(score / std::sqrt(static_cast<double>(d))));
          sum += weight.back();
        }
        for (i64 k = lo; k <= t; ++k)
          for (i64 c = 0; c < d; ++c)
            out[static_cast<std::size_t>(((row + t) * s.heads + h) * d + c)] +=
                weight[static_cast<std::size_t>(k - lo)] / sum * at(row + k, kv + s.kv_heads, c);
      }
  return out;
}

std::vector<double> doubles(const auto& x) {
  std::vector<double> y;
  for (const auto& v : x) y.push_back(to_double(v));
  return y;
}

// ---- the values -------------------------------------------------------------------------------

TEST(Attention, DoublesAgreeWithTheTextbook) {
  Queue q(2);
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(describe(s));
    Trial<double> run(s);
    run.compute(ref(), q, numerics::Format::f64);
    const std::vector<double> expected = textbook(s, run.starts, run.qkv);
    // Weights are positive and sum to 1, so an error of a few thousand roundings stays below this
    // times the largest value (|v| < 6).
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(run.out[i], expected[i], 1e-12) << i;
  }
}

/// What single precision may be off by, given operands exact in it: scores of D terms with
/// |q k| summing to `score` are off by (D + 2) u score relative to 1, weights by that much and
/// exp's own 2 ulp, sums over T keys by T u; |v| is at most `value`.
double float_bound(const Shape& s, double unit) {
  const double u = 0x1p-24, largest = 6, d = static_cast<double>(s.width);
  const double score = largest * largest * std::sqrt(d);  // sum |q k| / sqrt(D)
  return largest * (2 * (d + 4) * u * score + (2 * static_cast<double>(s.time) + 8) * u + unit);
}

TEST(Attention, FloatsAndBf16StayWithinTheirRoundings) {
  Queue q(2);
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(describe(s));
    Trial<float> single(s);
    single.compute(ref(), q, numerics::Format::f32);
    const std::vector<double> expected = textbook(s, single.starts, doubles(single.qkv));
    for (std::size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(single.out[i], expected[i], float_bound(s, 0)) << i;

    Trial<bf16> half(s);
    half.compute(ref(), q, numerics::Format::bf16);
    const std::vector<double> wanted = textbook(s, half.starts, doubles(half.qkv));
    // Weights are rounded to BF16 once before they meet the values, and the output once: 2^-9 each.
    for (std::size_t i = 0; i < wanted.size(); ++i)
      ASSERT_NEAR(to_double(half.out[i]), wanted[i], float_bound(s, 0x1p-8)) << i;
  }
}

TEST(Attention, KeepsTheLogOfTheSum) {
  const Shape s{1, 40, 1, 1, 4, 0, 1};
  Queue q(1);
  Trial<double> run(s);
  run.compute(ref(), q, numerics::Format::f64);
  for (i64 t = 0; t < s.time; ++t) {
    double sum = 0;
    for (i64 k = 0; k <= t; ++k) {
      double score = 0;
      for (i64 c = 0; c < 4; ++c)
        score += run.qkv[static_cast<std::size_t>(t * 12 + c)] *
                 run.qkv[static_cast<std::size_t>(k * 12 + 4 + c)];
      sum += std::exp(score / 2);
    }
    ASSERT_NEAR(run.lse[static_cast<std::size_t>(t)], std::log(sum), 1e-13);
  }
}

// ---- the gradient -----------------------------------------------------------------------------

/// d (dout . out) / d qkv[i] by complex step: no difference is taken, so nothing cancels.
double complex_step(const Shape& s, const std::vector<i32>& starts, const std::vector<double>& qkv,
                    const std::vector<double>& dout, std::size_t i) {
  std::vector<std::complex<double>> x(qkv.begin(), qkv.end());
  x[i] += std::complex<double>(0, 1e-30);
  const auto out = textbook(s, starts, x);
  double sum = 0;
  for (std::size_t j = 0; j < out.size(); ++j) sum += dout[j] * (out[j].imag() / 1e-30);
  return sum;
}

TEST(Attention, GradientIsTheComplexStep) {
  Queue q(2);
  const Shape shapes[] = {{1, 5, 1, 1, 3, 0, 1}, {1, 40, 4, 2, 5, 0, 2}, {2, 36, 2, 1, 8, 11, 1}};
  for (const Shape& s : shapes) {
    SCOPED_TRACE(describe(s));
    Trial<double> run(s);
    run.compute(ref(), q, numerics::Format::f64);
    const std::size_t step = run.qkv.size() / 97 + 1;  // a spread of elements, all columns met
    for (std::size_t i = 0; i < run.qkv.size(); i += step)
      ASSERT_NEAR(run.dqkv[i], complex_step(s, run.starts, run.qkv, run.dout, i), 1e-12) << i;
  }
}

TEST(Attention, GradientOfALongRowIsThatOfAShortOneAfterAnother) {
  // A row too long for one sweep is done in two. Cut into documents that fit, each must get the
  // bits it gets alone: the same sums in the same order.
  const Shape one{1, 64, 1, 1, 128, 0, 1};
  const i64 count = 60;
  Shape all = one;
  all.time = one.time * count;
  Queue q(2);
  Trial<float> whole(all);
  for (i64 t = 0; t < all.time; ++t)
    whole.starts[static_cast<std::size_t>(t)] = static_cast<i32>(t / one.time * one.time);
  whole.compute(ref(), q, numerics::Format::f32);
  for (i64 i = 0; i < count; i += 7) {
    Trial<float> part(one);
    const auto cut = [&](std::vector<float>& to, const std::vector<float>& from) {
      std::memcpy(to.data(), from.data() + i * static_cast<i64>(to.size()),
                  to.size() * sizeof(float));
    };
    cut(part.qkv, whole.qkv);
    cut(part.dout, whole.dout);
    part.compute(ref(), q, numerics::Format::f32);
    std::vector<float> expected(part.dqkv.size());
    cut(expected, whole.dqkv);
    ASSERT_TRUE(same_bits(expected, part.dqkv)) << "document " << i;
  }
}

}  // namespace
}  // namespace lathe::kernels
