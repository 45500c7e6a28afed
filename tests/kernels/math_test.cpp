#include "lathe/kernels/math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "lathe/base/view.h"
#include "lathe/kernels/lanes.h"

namespace lathe::kernels {
namespace {

using F = Plain<float>;
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kSmallest = std::numeric_limits<float>::min();

/// The distance of neighbouring floats at x.
double ulp(double x) {
  int e = 0;
  std::frexp(static_cast<float>(x), &e);
  return std::ldexp(1.0, e - 24);
}

/// f(x, i) for sixteen floats x at a time, in steps over all of them, both signs.
template <class G>
void sweep(const G& g) {
  constexpr u64 kStride = 1009;
  for (u64 u = 0; u < u64{1} << 32; u += kLanes * kStride)
    g(F::each([&](i64 i) {
      return std::bit_cast<float>(static_cast<u32>(u + static_cast<u64>(i) * kStride));
    }));
}

TEST(Math, ExpIsWithinTwoUlpOfEveryNormalResult) {
  sweep([](const F& x) {
    const F y = exp(x);
    for (i64 i = 0; i < kLanes; ++i) {
      const double right = std::exp(static_cast<double>(x.v[i]));
      if (std::isnan(x.v[i])) {
        ASSERT_TRUE(std::isnan(y.v[i]));
      } else if (right < kSmallest) {
        ASSERT_EQ(y.v[i], 0) << x.v[i];
      } else if (right > std::numeric_limits<float>::max()) {
        ASSERT_EQ(y.v[i], kInf) << x.v[i];
      } else {
        ASSERT_NEAR(y.v[i], right, 2 * ulp(right)) << x.v[i];
      }
    }
  });
}

TEST(Math, ExpEndsWhereFloatsEnd) {
  for (float x = -87.34F; x < -87.33F; x = std::nextafterf(x, 0)) {
    const float y = exp(F::broadcast(x)).lane0();
    EXPECT_TRUE(y == 0 || y >= kSmallest) << x;
  }
  for (float x = 88.72F; x < 88.73F; x = std::nextafterf(x, 100)) {
    const float y = exp(F::broadcast(x)).lane0();
    EXPECT_TRUE(y >= 3.3e38F) << x;
  }
  EXPECT_EQ(exp(F::broadcast(kInf)).lane0(), kInf);
  EXPECT_EQ(exp(F::broadcast(-kInf)).lane0(), 0);
  EXPECT_EQ(exp(F::broadcast(0.0F)).lane0(), 1);
  EXPECT_EQ(exp(F::broadcast(-0.0F)).lane0(), 1);
  // Payloads and signs of a NaN reach into the exponent's arithmetic: none may come out a number.
  for (u32 payload = 1; payload < 0x800000; payload += 4099)
    for (const u32 sign : {0u, 0x80000000u}) {
      const float y = exp(F::broadcast(std::bit_cast<float>(sign | 0x7f800000u | payload))).lane0();
      EXPECT_TRUE(std::isnan(y)) << payload;
    }
}

TEST(Math, LogIsWithinTwoUlp) {
  sweep([](const F& x) {
    const F y = log(x);
    for (i64 i = 0; i < kLanes; ++i) {
      if (std::isnan(x.v[i]) || x.v[i] <= -kSmallest) {
        ASSERT_TRUE(std::isnan(y.v[i])) << x.v[i];
      } else if (std::fabs(x.v[i]) < kSmallest) {
        ASSERT_TRUE(y.v[i] == -kInf || std::isnan(y.v[i])) << x.v[i];
      } else if (x.v[i] == kInf) {
        ASSERT_EQ(y.v[i], kInf);
      } else {
        const double right = std::log(static_cast<double>(x.v[i]));
        ASSERT_NEAR(y.v[i], right, 2 * ulp(right)) << x.v[i];
      }
    }
  });
  EXPECT_EQ(log(F::broadcast(1)).lane0(), 0);
  EXPECT_EQ(log(F::broadcast(0)).lane0(), -kInf);
}

// 1 + e and the division round once each, half an ulp of results that are at most twice as large
// in ulps; e is off by two ulp at most, of which the quotient 1 / (1 + e) sees less than all.
TEST(Math, LogisticIsWithinFiveUlpAndNeverCancels) {
  sweep([](const F& x) {
    const Logistic<F> y = logistic(x);
    for (i64 i = 0; i < kLanes; ++i) {
      const double v = x.v[i], e = std::exp(-std::fabs(v));
      if (std::isnan(v)) {
        ASSERT_TRUE(std::isnan(y.s.v[i]) && std::isnan(y.slope.v[i]));
        continue;
      }
      const double right = (v >= 0 ? 1 : e) / (1 + e), slope = e / ((1 + e) * (1 + e));
      if (e < 2 * kSmallest) continue;
      ASSERT_NEAR(y.s.v[i], right, 5 * ulp(right)) << v;
      ASSERT_NEAR(y.slope.v[i], slope, 9 * ulp(slope)) << v;
    }
  });
}

TEST(Math, ActivationsHaveTheirLimits) {
  const auto at = [](float x) { return F::broadcast(x); };
  for (const float x : {20.0F, 1e10F, 1e30F, std::numeric_limits<float>::max(), kInf}) {
    EXPECT_EQ(gelu(at(x)).lane0(), x);
    EXPECT_EQ(gelu_slope(at(x)).lane0(), 1) << x;
  }
  for (const float x : {-20.0F, -1e10F, -1e30F, -std::numeric_limits<float>::max(), -kInf}) {
    EXPECT_EQ(gelu_slope(at(x)).lane0(), 0) << x;
    if (x > -kInf) {
      EXPECT_EQ(gelu(at(x)).lane0(), 0) << x;
    }
  }
  EXPECT_EQ(gelu(at(0)).lane0(), 0);
  EXPECT_EQ(gelu_slope(at(0)).lane0(), 0.5F);
  EXPECT_EQ(silu(at(0)).slope.lane0(), 0.5F);
  EXPECT_EQ(silu(at(200)).value.lane0(), 200);
  EXPECT_EQ(silu(at(-200)).value.lane0(), 0);
  EXPECT_EQ(silu(at(-200)).slope.lane0(), 0);
  for (const float y : {gelu(at(kNaN)).lane0(), gelu_slope(at(kNaN)).lane0(),
                        silu(at(kNaN)).value.lane0(), silu(at(kNaN)).slope.lane0()})
    EXPECT_TRUE(std::isnan(y));
}

TEST(Math, GeluIsTheTanhForm) {
  for (double x = -12; x <= 12; x += 0.37) {
    const double u = std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
    const double right = x / 2 * (1 + std::tanh(u));
    // 1 + tanh u is off by an ulp of 1; the argument by a few ulp of itself.
    EXPECT_NEAR(gelu(Plain<double>::broadcast(x)).lane0(), right,
                16 * 0x1p-53 * (1 + std::fabs(x)));
  }
}

}  // namespace
}  // namespace lathe::kernels
