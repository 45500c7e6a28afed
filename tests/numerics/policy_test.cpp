#include "lathe/numerics/policy.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/numerics/recipe.h"

namespace lathe::numerics {
namespace {

/// Three levels, two operands; a level is as good as its number of decibels.
Adaptive three() {
  Adaptive a;
  a.levels = {{"low", {}}, {"middle", {}}, {"high", {}}};
  a.snr_db = 20;
  a.margin_db = 2;
  a.underflow = 0.1;
  a.patience = 3;
  return a;
}

std::vector<Health> decibels(double low, double middle) {
  return {{low}, {50}, {middle}, {50}, {50}, {50}};
}

TEST(Policy, TheHighestLevelIsTakenWhenNothingElseIsGoodEnough) {
  const Adaptive a = three();
  EXPECT_EQ(next_choice({.level = 0}, decibels(10, 10), a), (Choice{.level = 2}));
  EXPECT_EQ(next_choice({.level = 2}, decibels(10, 10), a), (Choice{.level = 2}));
}

TEST(Policy, ALevelThatIsNoLongerGoodEnoughIsLeftAtOnceForTheLowestThatIs) {
  EXPECT_EQ(next_choice({.level = 0}, decibels(19.9, 20), three()), (Choice{.level = 1}));
  EXPECT_EQ(next_choice({.level = 0}, decibels(20, 0), three()), (Choice{.level = 0}));
}

TEST(Policy, ALowerLevelIsTakenAfterPatienceMeasurementsWithAMargin) {
  const Adaptive a = three();
  Choice c{.level = 2};
  for (int i = 0; i < 2; ++i) c = next_choice(c, decibels(22, 22), a);
  EXPECT_EQ(c, (Choice{2, 2, 0}));
  EXPECT_EQ(next_choice(c, decibels(22, 22), a), (Choice{.level = 0}));
  // One that does not ask starts the count anew.
  c = next_choice(c, decibels(21.9, 21.9), a);
  EXPECT_EQ(c, (Choice{.level = 2}));
}

TEST(Policy, OfTheLevelsAskedForTheHighestIsTaken) {
  const Adaptive a = three();
  Choice c{.level = 2};
  c = next_choice(c, decibels(30, 30), a);
  c = next_choice(c, decibels(10, 30), a);
  c = next_choice(c, decibels(30, 30), a);
  EXPECT_EQ(c, (Choice{.level = 1}));
}

TEST(Policy, BetweenThresholdAndMarginNothingMoves) {
  const Adaptive a = three();
  for (const i64 level : {0, 1, 2}) {
    const Choice c = next_choice({.level = level}, decibels(21, 21), a);
    EXPECT_EQ(c, (Choice{.level = level})) << level;
  }
}

TEST(Policy, UnderflowSaturationAndNanCountAgainstALevel) {
  const Adaptive a = three();
  EXPECT_FALSE(good_enough({30, 0.11, 0}, a, false));
  EXPECT_FALSE(good_enough({30, 0, 0.02}, a, false));
  EXPECT_FALSE(good_enough({std::numeric_limits<double>::quiet_NaN(), 0, 0}, a, false));
  EXPECT_TRUE(good_enough({std::numeric_limits<double>::infinity(), 0.1, 0.01}, a, false));
  EXPECT_FALSE(good_enough({30, 0.09, 0}, a, true));
}

}  // namespace
}  // namespace lathe::numerics
