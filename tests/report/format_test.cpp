#include "lathe/report/format.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace lathe::report {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Escape, TurnsMarkupIntoText) {
  EXPECT_EQ(escape("<script>\"x\" & 'y'</script>"),
            "&lt;script&gt;&quot;x&quot; &amp; &#39;y&#39;&lt;/script&gt;");
}

TEST(Escape, KeepsWellFormedTextOfAnyScript) {
  const std::string text = "é 漢 \U0001F600\t\n";
  EXPECT_EQ(escape(text), text);
}

TEST(Escape, ReplacesBrokenBytesAndControlCharacters) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(escape("a\xFF"), "a" + mark);
  EXPECT_EQ(escape("\xC3"), mark);                        // cut short
  EXPECT_EQ(escape("\xC0\xAF"), mark + mark);             // overlong
  EXPECT_EQ(escape("\xED\xA0\x80"), mark + mark + mark);  // a surrogate
  EXPECT_EQ(escape(std::string("a\0b\x1B", 4)), "a" + mark + "b" + mark);
}

TEST(Format, WritesCountsWithThreeDigitsAndNoIdleZeros) {
  EXPECT_EQ(count(0), "0");
  EXPECT_EQ(count(850), "850");
  EXPECT_EQ(count(999.7), "1 k");
  EXPECT_EQ(count(12345), "12.3 k");
  EXPECT_EQ(count(15e6), "15 M");
  EXPECT_EQ(count(-2500), "-2.5 k");
  EXPECT_EQ(bytes(512), "512 B");
  EXPECT_EQ(bytes(1.62e9), "1.62 GB");
  EXPECT_EQ(bytes(98.12e6), "98.1 MB");
}

TEST(Format, WritesDurationsAndShares) {
  EXPECT_EQ(duration(0.84), "0.8 s");
  EXPECT_EQ(duration(42), "42 s");
  EXPECT_EQ(duration(372), "6 min 12 s");
  EXPECT_EQ(duration(3 * 3600 + 5 * 60), "3 h 05 min");
  EXPECT_EQ(percent(0.4372), "43.7 %");
  EXPECT_EQ(percent(1), "100 %");
}

TEST(Format, WritesADashForWhatIsNoNumber) {
  EXPECT_EQ(plain(kNan), "–");
  EXPECT_EQ(count(kNan), "–");
  EXPECT_EQ(bytes(std::numeric_limits<double>::infinity()), "–");
  EXPECT_EQ(duration(kNan), "–");
  EXPECT_EQ(percent(kNan), "–");
}

}  // namespace
}  // namespace lathe::report
