#include "lathe/base/rng.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "lathe/base/view.h"

namespace lathe {
namespace {

// Known answers that the authors publish with Random123 (kat_vectors, philox4x32 10).
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, 0),
            (std::array<u32, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, ~u64{0}),
            (std::array<u32, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (std::array<u32, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, SeedPurposeStreamAndIndexEachChangeTheBits) {
  std::set<u64> words;
  for (const u64 seed : {0, 1})
    for (const Draw draw : {Draw::init, Draw::sample})
      for (const u64 stream : {u64{0}, u64{1} << 40})
        for (const u64 index : {u64{0}, u64{1} << 33})
          words.insert(Rng{seed, draw, stream}.word(index));
  EXPECT_EQ(words.size(), 16u);
}

TEST(Rng, UniformStaysInsideZeroAndOne) {
  const Rng r{7, Draw::sample, 0};
  for (u64 i = 0; i < 10000; ++i) {
    EXPECT_GE(r.uniform(i), 0.0);
    EXPECT_LT(r.uniform(i), 1.0);
  }
}

// The mean of n draws deviates by 1/sqrt(n), their mean square by sqrt(2/n): six of those.
TEST(Rng, NormalHasMeanZeroAndVarianceOne) {
  constexpr int kDraws = 100000;
  const Rng r{7, Draw::init, 3};
  double sum = 0, squares = 0;
  for (u64 i = 0; i < kDraws; ++i) {
    const double x = r.normal(i);
    sum += x;
    squares += x * x;
  }
  EXPECT_LT(std::abs(sum / kDraws), 6 / std::sqrt(kDraws));
  EXPECT_LT(std::abs(squares / kDraws - 1), 6 * std::sqrt(2.0 / kDraws));
}

}  // namespace
}  // namespace lathe
