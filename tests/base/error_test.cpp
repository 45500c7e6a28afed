#include "lathe/base/error.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

TEST(Error, ReportsWhatWhereAndWhatToType) {
  Error e("model.heads = {} does not fit", 12);
  e.at("configs/small.toml", 14).hint("use {}", 8);
  EXPECT_EQ(e.report(),
            "error: model.heads = 12 does not fit\n"
            "  --> configs/small.toml:14\n"
            "  hint: use 8\n");
}

TEST(Error, LeavesOutTheLinesThatAreEmpty) {
  EXPECT_EQ(Error("it broke").report(), "error: it broke\n");
  EXPECT_EQ(Error("it broke").at("a.bin").report(), "error: it broke\n  --> a.bin\n");
}

TEST(Error, SurvivesBeingThrownThroughItsBuilders) {
  try {
    throw Error("a").at("b", 3).hint("c");
  } catch (const Error& e) {
    EXPECT_EQ(e.where(), "b:3");
    EXPECT_EQ(e.hint(), "c");
  }
}

TEST(CheckDeathTest, PrintsTheValuesAndAborts) {
  EXPECT_DEATH(CHECK(1 + 1 == 3, "{} and {}", 1, 2), "CHECK.*1 \\+ 1 == 3.*1 and 2");
}

}  // namespace
}  // namespace lathe
