#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "lathe/base/error.h"
#include "lathe/kernels/kernels.h"

namespace lathe::kernels {

namespace {

TEST(Select, AutoTakesTheFirstCandidateThatRunsHere) {
  for (const Candidate& c : candidates())
    if (c.why_not.empty()) {
      EXPECT_EQ(&select("auto"), c.table);
      break;
    }
}

TEST(Select, PlainCodeRunsEverywhereAndComesLast) {
  EXPECT_EQ(candidates().back().table, &ref());
  EXPECT_TRUE(candidates().back().why_not.empty());
  EXPECT_EQ(&select("ref"), &ref());
}

TEST(Select, EveryTableHasAnotherName) {
  std::set<std::string_view> names;
  for (const Candidate& c : candidates()) EXPECT_TRUE(names.insert(c.table->name).second);
}

TEST(Select, ATableThatCannotRunHereIsRefusedWithTheReason) {
  for (const Candidate& c : candidates()) {
    if (c.why_not.empty()) {
      EXPECT_EQ(&select(std::string(c.table->name)), c.table);
      continue;
    }
    try {
      select(std::string(c.table->name));
      ADD_FAILURE() << c.table->name << " was not refused";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(c.why_not), std::string::npos);
      EXPECT_NE(e.hint().find(select("auto").name), std::string::npos);
    }
  }
}

TEST(Select, AMisspeltNameIsAnsweredWithTheNearest) {
  try {
    select("avx521");
    ADD_FAILURE() << "not refused";
  } catch (const Error& e) {
    EXPECT_NE(e.hint().find("did you mean \"avx512\"?"), std::string::npos) << e.hint();
  }
}

TEST(Select, TheDescriptionSaysWhyBetterTablesWerePassedOver) {
  EXPECT_EQ(describe(*candidates().front().table), candidates().front().table->name);
  const std::string plain = describe(ref());
  for (const Candidate& c : candidates()) {
    if (c.table == &ref()) continue;
    EXPECT_NE(plain.find(std::string(c.table->name) +
                         " passed over: " + (c.why_not.empty() ? "not asked for" : c.why_not)),
              std::string::npos)
        << plain;
  }
}

}  // namespace

}  // namespace lathe::kernels
