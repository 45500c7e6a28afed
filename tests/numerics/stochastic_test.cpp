#include <gtest/gtest.h>

#include <cmath>

#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/format.h"

namespace lathe::numerics {
namespace {

struct Interval {
  Format format;
  double below, above;
};

/// Neighbours in each kind of region: normal, across binades, subnormal, and next to zero.
constexpr Interval kIntervals[]{
    {Format::e4m3, 1, 1.125},         {Format::e4m3, 0x1p-9, 0x1p-8}, {Format::e4m3, 0, 0x1p-9},
    {Format::e5m2, 0, 0x1p-16},       {Format::e2m1, 0, 0.5},         {Format::e2m1, 4, 6},
    {Format::e2m3, 3.75, 4},          {Format::mxint8, 0, 1.0 / 64},  {Format::hif8, 0, 0x1p-22},
    {Format::hif8, 0x1p-16, 0x1p-15}, {Format::hif8, 15, 16},         {Format::bf16, 1, 1.0078125},
    {Format::bf16, 0, 0x1p-133},      {Format::f32, 0, 0x1p-149},     {Format::e8m0, 1, 2}};

TEST(StochasticRounding, GoesUpForExactlyTheShareOfTheRandomBitsThatTheFractionAsksFor) {
  for (const Interval& i : kIntervals)
    for (int n : {1, 3, 8}) {
      const Cast c{.tie = Tie::stochastic, .random_bits = n};
      for (int part = 0; part < 64; ++part) {
        const double fraction = part / 64.0, x = i.below + (i.above - i.below) * fraction;
        u32 up = 0;
        for (u32 r = 0; r < u32{1} << n; ++r) {
          const double v = decode(i.format, encode(i.format, x, c, r));
          ASSERT_TRUE(v == i.below || v == i.above) << info(i.format).name << " " << x << " " << v;
          up += v == i.above;
        }
        EXPECT_EQ(up, static_cast<u32>(std::floor(fraction * (1 << n))))
            << info(i.format).name << " " << x << ", " << n << " bits";
      }
    }
}

TEST(StochasticRounding, FarBelowTheSmallestValueItStillGoesUpOnceInAWhile) {
  const Cast c{.tie = Tie::stochastic};
  EXPECT_EQ(encode(Format::e4m3, 0x1p-41, c, ~u32{0}), 1u) << "p = 2^-32";
  EXPECT_EQ(encode(Format::e4m3, 0x1p-41, c, ~u32{1}), 0u);
  EXPECT_EQ(encode(Format::e4m3, 0x1p-42, c, ~u32{0}), 0u) << "less than 32 bits can say";
  EXPECT_EQ(encode(Format::e4m3, 5e-324, c, ~u32{0}), 0u);
  EXPECT_EQ(encode(Format::e4m3, 500, c, 0), 0x7eu) << "saturates whatever is drawn";
}

/// The mean of N draws of 0 or 1 with probability p lies within 4 sqrt(p (1 - p) / N) of p, but for
/// one time in 16,000; these draws are always the same ones.
TEST(StochasticRounding, IsUnbiasedOverAMillionDrawsAtSixteenPlaces) {
  constexpr u64 kDraws = u64{1} << 20;
  for (const Interval& i : {Interval{Format::e4m3, 0, 0x1p-9}, Interval{Format::e2m1, 2, 3}}) {
    for (int place = 0; place < 8; ++place) {
      const double p = (place + 0.37) / 8, x = i.below + (i.above - i.below) * p;
      const Rng rng{static_cast<u64>(place), Draw::rounding};
      const Cast c{.tie = Tie::stochastic};
      u64 up = 0;
      for (u64 n = 0; n < kDraws / 4; ++n)
        for (const u32 word : rng.bits(n))
          up += decode(i.format, encode(i.format, x, c, word)) == i.above;
      EXPECT_NEAR(static_cast<double>(up) / kDraws, p, 4 * std::sqrt(p * (1 - p) / kDraws))
          << info(i.format).name << " " << x;
    }
  }
}

/// 2^e (1 + mantissa / 2^23).
double single(int e, u32 mantissa) { return std::ldexp(1 + mantissa * 0x1p-23, e); }

TEST(HybridRounding, NearOneIsNearestAwayAndFarFromOneIsDecidedByTheLowBits) {
  const Cast hr{.tie = Tie::hybrid};
  for (const int e : {-3, -1, 0, 2, 3})
    for (u32 m = 0; m < 0x800000; m += 0x1357)
      ASSERT_EQ(encode(Format::hif8, single(e, m), hr),
                encode(Format::hif8, single(e, m), {.tie = Tie::away}));
  struct Case {
    int exponent;
    u32 mantissa;
    double value;
  };
  for (const Case& c : {Case{4, 0x1fffff, 20},
                        {4, 0x000001, 16},
                        {4, 0x100000, 20},
                        {4, 0x0fffff, 16},
                        {4, 0x000000, 16},
                        {8, 0x3fffff, 384},
                        {8, 0x000100, 256},
                        {-16, 0x000000, 0x1p-16},
                        {-16, 0x400000, 0x1p-15},
                        {-16, 0x3fffff, 0x1p-16},
                        {-23, 0x000000, 0x1p-22},
                        {-23, 0x7fffff, 0x1p-22},
                        {-23, 0x003fff, 0},
                        {-24, 0x7fffff, 0}})
    for (const double sign : {1.0, -1.0})
      EXPECT_EQ(
          decode(Format::hif8, encode(Format::hif8, sign * single(c.exponent, c.mantissa), hr)),
          sign * c.value)
          << c.exponent << " " << c.mantissa;
}

}  // namespace
}  // namespace lathe::numerics
