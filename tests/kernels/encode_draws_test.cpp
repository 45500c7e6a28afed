#include "lathe/kernels/encode_draws.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/encode.h"
#include "lathe/kernels/gemm.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/numerics/format.h"
#include "tests/kernels/encode_case.h"
#include "tests/kernels/row_case.h"

namespace lathe::kernels {
namespace {

TEST(EncodeDraws, AreTheWordsOfTheirCounters) {
  const Draws d{.seed = 0x123456789abcdef0, .stream = 0xfedcba9876543210};
  for (const u64 block : {u64{0}, u64{1}, u64{0x0fffffff}, u64{0x10000000}, u64{1} << 40}) {
    u32 words[2 * kDrawWords];
    draw_blocks<2, Plain<float>>(words, d, block, 3);
    for (u64 i = 0; i < 32; ++i) {
      const u64 counter = 16 * (block + i / 16 * 3) + i % 16;
      const auto want = Rng{d.seed, Draw::rounding, d.stream}.bits(counter);
      for (u64 w = 0; w < 4; ++w) EXPECT_EQ(words[64 * (i / 16) + 16 * w + i % 16], want[w]);
    }
  }
}

/// Rows [begin, begin + count) of x, encoded in a call of their own.
Encoded part(const Matrix& x, i64 begin, i64 count, const Encoding& e, Along along) {
  Queue q(1);
  Matrix some(kF32, count, x.cols());
  for (i64 r = 0; r < count; ++r)
    for (i64 c = 0; c < x.cols(); ++c) some.set(r, c, x.at(begin + r, c));
  return encode_with(select("auto"), q, some, e, along,
                     {.seed = 3, .stream = 4, .first_row = begin});
}

TEST(EncodeDraws, DoNotDependOnHowRowsAreSharedOutOverCalls) {
  Matrix x(kF32, 96, 133);
  x.fill(1);
  for (const Encoding& e :
       {Encoding{.format = Format::e4m3, .rounding = Tie::stochastic},
        Encoding{.format = Format::e2m1, .scaling = Scaling::mx, .rounding = Tie::stochastic},
        Encoding{.format = Format::bf16, .rounding = Tie::stochastic}})
    for (const Along along : {Along::cols, Along::rows}) {
      const Encoded whole = part(x, 0, 96, e, along);
      for (const i64 begin : {0, 32, 64}) {
        const Encoded some = part(x, begin, 32, e, along);
        for (i64 r = 0; r < 32; ++r)
          for (i64 c = 0; c < 133; ++c)
            ASSERT_EQ(code_bits(some.codes.at(r, c)), code_bits(whole.codes.at(begin + r, c)));
      }
    }
}

TEST(EncodeDraws, AreTheSameFromTheLastRowToTheFirst) {
  Matrix x(kF32, 40, 261);
  x.fill(2);
  for (const Encoding& e :
       {Encoding{.format = Format::e4m3, .rounding = Tie::stochastic},
        Encoding{.format = Format::s1p2, .scaling = Scaling::hif4, .rounding = Tie::stochastic},
        Encoding{.format = Format::e2m1, .scaling = Scaling::mx, .rounding = Tie::stochastic}}) {
    const Encoded whole = part(x, 0, 40, e, Along::cols);
    for (i64 r = 39; r >= 0; --r) {
      const Encoded row = part(x, r, 1, e, Along::cols);
      for (i64 c = 0; c < 261; ++c)
        ASSERT_EQ(code_bits(row.codes.at(0, c)), code_bits(whole.codes.at(r, c))) << r << " " << c;
    }
  }
}

TEST(EncodeDraws, DifferBySeedStreamAndPlace) {
  Queue q(1);
  Matrix x(kF32, 4, 256);
  x.fill_with(1.0625);  // half way between 1 and 1.125
  const Encoding e{.format = Format::e4m3, .rounding = Tie::stochastic};
  const auto with = [&](const Draws& d) {
    return encode_with(select("auto"), q, x, e, Along::cols, d).codes;
  };
  const Matrix base = with({.seed = 1, .stream = 1});
  EXPECT_TRUE(base == with({.seed = 1, .stream = 1}));
  EXPECT_FALSE(base == with({.seed = 2, .stream = 1}));
  EXPECT_FALSE(base == with({.seed = 1, .stream = 2}));
  EXPECT_FALSE(base == with({.seed = 1, .stream = 1, .first_row = 4}));
}

struct Interval {
  Format format;
  double low, step;
};

// The mean of n draws is off by no more than 4 sigma, sigma = step sqrt(p (1 - p) / n), and by what
// 16 bits cannot tell.
void expect_fair(const Interval& in, i64 rows) {
  constexpr i64 kCols = 512;
  const double count = static_cast<double>(rows * kCols);
  Queue q(2);
  for (int position = 0; position < 16; ++position) {
    const double p = (position + 0.37) / 16;
    Matrix x(kF32, rows, kCols);
    x.fill_with(in.low + p * in.step);
    const Encoding e{.format = in.format, .rounding = Tie::stochastic};
    const Matrix codes =
        encode_with(select("auto"), q, x, e, Along::cols, {.seed = static_cast<u64>(position)})
            .codes;
    double ups = 0;
    for (i64 r = 0; r < rows; ++r)
      for (i64 c = 0; c < kCols; ++c) ups += (codes.at(r, c) - in.low) / in.step;
    EXPECT_NEAR(ups / count, p, 4 * std::sqrt(p * (1 - p) / count) + 0x1p-16)
        << numerics::info(in.format).name << " " << in.low;
  }
}

TEST(EncodeDraws, RoundUpAsOftenAsTheyShould) {
  for (const Interval& in :
       {Interval{Format::e2m1, 0, 0.5}, Interval{Format::e2m1, 4, 2},
        Interval{Format::e5m2, 0x1p-16, 0x1p-16}, Interval{Format::hif8, 256, 128},
        Interval{Format::hif8, 0x1p-20, 0x1p-20}, Interval{Format::bf16, 1, 0x1p-7},
        Interval{Format::mxint8, 0, 0x1p-6}})
    expect_fair(in, 128);
}

// 2^20 draws at each of 16 positions, of subnormal numbers too.
TEST(EncodeDraws, RoundUpAsOftenAsTheyShouldInAMillion) {
  for (const Interval& in : {Interval{Format::e4m3, 1, 0.125}, Interval{Format::e4m3, 0, 0x1p-9},
                             Interval{Format::e4m3, 0x1p-8, 0x1p-9}})
    expect_fair(in, 2048);
}

}  // namespace
}  // namespace lathe::kernels
