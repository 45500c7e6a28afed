#include "lathe/data/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lathe/base/view.h"
#include "tests/data/sample_text.h"

namespace lathe::data {
namespace {

/// UTF-8 of a code point, by the table of RFC 3629.
std::string utf8_of(u32 c) {
  const auto tail = [](u32 x) { return static_cast<char>(0x80 | (x & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | c >> 6), tail(c)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | c >> 12), tail(c >> 6), tail(c)};
  return {static_cast<char>(0xF0 | c >> 18), tail(c >> 12), tail(c >> 6), tail(c)};
}

TEST(Utf8, EveryCodePointIsValidAndEverySurrogateIsNot) {
  for (u32 c = 0; c < 0x110000; ++c) {
    const std::string s = utf8_of(c);
    const bool surrogate = c >= 0xD800 && c < 0xE000;
    ASSERT_EQ(valid_prefix(s), surrogate ? 0 : s.size()) << c;
  }
}

TEST(Utf8, OverlongFormsAndWhatLiesPastTheLastPlaneAreBad) {
  for (const char* s : {"\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF",
                        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\x80", "\xFF"})
    EXPECT_EQ(valid_prefix(s), 0u) << s;
}

TEST(Utf8, OneReplacementStandsForEachMaximalSubpart) {
  // the example of the Unicode Standard 15, table 3-8 and 3-11
  std::string out;
  std::vector<i64> at;
  append_repaired(out, "\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", at);
  EXPECT_EQ(out, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\x41");
  EXPECT_EQ(at, (std::vector<i64>{0, 2, 3, 6}));
}

TEST(Utf8, RunsJoinToTheTextAndGoodOnesAreValid) {
  for (u64 seed = 0; seed < 200; ++seed) {
    const std::string text = random_bytes(100, seed);
    std::string joined;
    for_runs(
        text,
        [&](std::string_view run) {
          EXPECT_EQ(valid_prefix(run), run.size());
          joined += run;
        },
        [&](std::string_view run) {
          EXPECT_EQ(valid_prefix(run), 0u);
          joined += run;
        });
    ASSERT_EQ(joined, text);
  }
}

TEST(Utf8, ACutCharacterIsToldFromABadOne) {
  EXPECT_TRUE(is_cut_short("\xE2\x82"));
  EXPECT_TRUE(is_cut_short("\xF0"));
  EXPECT_FALSE(is_cut_short("\xE2\x82\xAC"));
  EXPECT_FALSE(is_cut_short("\xE2\x41"));
  EXPECT_FALSE(is_cut_short("\xFF"));
  EXPECT_FALSE(is_cut_short("a"));
  EXPECT_FALSE(is_cut_short(""));
}

}  // namespace
}  // namespace lathe::data
