#include "lathe/model/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <vector>

#include "lathe/base/view.h"

namespace lathe::model {
namespace {

const std::vector<float> kLogits{0.5f, 2.0f, -1.0f, 2.0f, 1.0f};

std::map<i32, int> histogram(const Sampling& s, int draws) {
  std::map<i32, int> seen;
  for (int i = 0; i < draws; ++i) ++seen[pick(kLogits, s, i)];
  return seen;
}

TEST(Sampler, TakesTheFirstOfTheMostLikelyAtTemperatureZero) {
  EXPECT_EQ(pick(kLogits, {.temperature = 0}, 0), 1);
}

TEST(Sampler, IsAFunctionOfSeedAndPosition) {
  int differ = 0;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(pick(kLogits, {.seed = 4}, i), pick(kLogits, {.seed = 4}, i));
    differ += pick(kLogits, {.seed = 4}, i) != pick(kLogits, {.seed = 5}, i);
  }
  EXPECT_GT(differ, 0);
}

TEST(Sampler, KeepsOnlyTheMostLikelyK) {
  for (const auto& [id, n] : histogram({.temperature = 1, .top_k = 2}, 500))
    EXPECT_TRUE(id == 1 || id == 3) << id;
  // Of the two equal ones the smaller id comes first.
  EXPECT_EQ(histogram({.temperature = 1, .top_k = 1}, 50).begin()->first, 1);
}

TEST(Sampler, KeepsOnlyTheMostLikelyThatReachTopP) {
  // Shares: 0.092, 0.412, 0.021, 0.412, 0.152 before the last digits: two reach 0.8, three 0.9.
  EXPECT_EQ(histogram({.temperature = 1, .top_p = 0.7}, 500).size(), 2u);
  EXPECT_EQ(histogram({.temperature = 1, .top_p = 0.85}, 500).size(), 3u);
  EXPECT_EQ(histogram({.temperature = 1, .top_p = 0}, 50).size(), 1u);
}

// A count of n draws of share p has variance n p (1 - p): six deviations are passed once in 10^9.
TEST(Sampler, DrawsEachTokenByItsShare) {
  constexpr int kDraws = 20000;
  double all = 0;
  for (const float l : kLogits) all += std::exp(static_cast<double>(l));
  std::map<i32, int> seen = histogram({.temperature = 1}, kDraws);
  for (std::size_t i = 0; i < kLogits.size(); ++i) {
    const double p = std::exp(static_cast<double>(kLogits[i])) / all;
    EXPECT_NEAR(seen[static_cast<i32>(i)], kDraws * p, 6 * std::sqrt(kDraws * p * (1 - p)));
  }
}

TEST(Sampler, NeverPicksWhatIsNoNumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(pick(std::vector{nan, 1.0f, nan}, {}, i), 1);
  EXPECT_EQ(pick(std::vector{nan, nan}, {}, 0), 0);
  EXPECT_EQ(pick(std::vector{1.0f, std::numeric_limits<float>::infinity()}, {}, 0), 1);
}

}  // namespace
}  // namespace lathe::model
