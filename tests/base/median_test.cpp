#include "lathe/base/median.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lathe {
namespace {

TEST(Median, IsTheMiddleOrBetweenTheTwoInTheMiddle) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({std::numeric_limits<double>::infinity(), 1, 2}), 2);
  EXPECT_TRUE(std::isnan(median({})));
}

}  // namespace
}  // namespace lathe
