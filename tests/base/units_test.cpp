#include "lathe/base/units.h"

#include <gtest/gtest.h>

#include <limits>

#include "lathe/base/view.h"

namespace lathe {
namespace {

TEST(Units, BytesHaveThreeDigitsAndADecimalPrefix) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1000), "1.00 kB");
  EXPECT_EQ(bytes_text(12'345'678), "12.3 MB");
  EXPECT_EQ(bytes_text(999'499'999), "999 MB");
  EXPECT_EQ(bytes_text(999'500'000), "1.00 GB");
  EXPECT_EQ(bytes_text(std::numeric_limits<i64>::max()), "9.22 EB");
}

TEST(Units, CountsHaveAPrefixOnlyWhereTheyNeedOne) {
  EXPECT_EQ(count_text(950), "950");
  EXPECT_EQ(count_text(124'475'904), "124 M");
  EXPECT_EQ(count_text(1.5), "2");
}

TEST(Units, DigitsAreGroupedInThrees) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(grouped(-100), "-100");
}

}  // namespace
}  // namespace lathe
