#include "lathe/optim/schedule.h"

#include <gtest/gtest.h>

#include <string>

#include "lathe/base/view.h"

namespace lathe::optim {
namespace {

Schedule hundred(const std::string& name) {
  return {.name = name, .peak = 0.5, .min_ratio = 0.25, .steps = 100, .warmup = 20, .decay = 0};
}

class EachSchedule : public testing::TestWithParam<const char*> {};

TEST_P(EachSchedule, WarmsUpLinearlyToThePeak) {
  const Schedule s = hundred(GetParam());
  for (i64 step = 1; step <= 20; ++step)
    EXPECT_DOUBLE_EQ(s.at(step), 0.5 * static_cast<double>(step) / 20) << step;
}

TEST_P(EachSchedule, StartsAtThePeakWithoutWarmUp) {
  Schedule s = hundred(GetParam());
  s.warmup = 0;
  const double slack = 0.5 * 3 / 100;  // what a linear decay to 0 loses in two steps, and more
  EXPECT_NEAR(s.at(1), 0.5, slack);
  EXPECT_LE(s.at(1), 0.5);
}

TEST_P(EachSchedule, NeverRisesAfterWarmUp) {
  const Schedule s = hundred(GetParam());
  for (i64 step = 20; step < 110; ++step) EXPECT_LE(s.at(step + 1), s.at(step)) << step;
}

TEST_P(EachSchedule, EndsAtItsFloorAndStaysThere) {
  const Schedule s = hundred(GetParam());
  const double end = s.name == "constant" ? 0.5 : 0.125;
  EXPECT_DOUBLE_EQ(s.at(100), end);
  EXPECT_EQ(s.at(1000), s.at(100));
}

TEST_P(EachSchedule, SurvivesARunThatIsAllWarmUp) {
  Schedule s = hundred(GetParam());
  s.warmup = 100;
  EXPECT_EQ(s.at(100), 0.5);
  EXPECT_EQ(s.at(50), 0.25);
}

TEST_P(EachSchedule, SurvivesARunOfOneStep) {
  Schedule s = hundred(GetParam());
  s.steps = 1;
  s.warmup = 0;
  EXPECT_GE(s.at(1), 0.125);
  EXPECT_LE(s.at(1), 0.5);
}

INSTANTIATE_TEST_SUITE_P(Names, EachSchedule,
                         testing::Values("constant", "linear", "cosine", "wsd"));

TEST(Schedule, LinearAndCosineMeetHalfWayDown) {
  EXPECT_DOUBLE_EQ(hundred("linear").at(60), (0.5 + 0.125) / 2);
  EXPECT_DOUBLE_EQ(hundred("cosine").at(60), (0.5 + 0.125) / 2);
  EXPECT_GT(hundred("cosine").at(40), hundred("linear").at(40));
}

TEST(Schedule, WsdStaysAtThePeakUntilItsDecay) {
  Schedule s = hundred("wsd");
  s.decay = 30;
  EXPECT_EQ(s.at(70), 0.5);
  EXPECT_DOUBLE_EQ(s.at(85), (0.5 + 0.125) / 2);
}

TEST(Schedule, WsdDecaysOverATenthUnlessTold) {
  EXPECT_EQ(hundred("wsd").at(90), 0.5);
  EXPECT_LT(hundred("wsd").at(91), 0.5);
}

}  // namespace
}  // namespace lathe::optim
