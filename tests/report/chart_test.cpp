#include "lathe/report/chart.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace lathe::report {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<Point> wave(int n) {
  std::vector<Point> out;
  for (int i = 0; i < n; ++i) out.push_back({static_cast<double>(i), std::sin(0.37 * i)});
  return out;
}

int occurrences(const std::string& text, const std::string& part) {
  int n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

Chart chart_of(std::vector<Point> points) {
  Chart c;
  c.id = "test";
  c.title = "A & B";
  c.lines.push_back({"one", std::move(points), 0, false, false});
  return c;
}

TEST(Thin, LeavesShortSeriesAlone) { EXPECT_EQ(thin(wave(200), 100).size(), 200U); }

TEST(Thin, KeepsTheSpikesOfALongSeries) {
  std::vector<Point> points = wave(100000);
  points[54321].y = 50;
  points[777].y = -50;
  const std::vector<Point> few = thin(points, 300);
  EXPECT_LE(few.size(), 600U);
  const auto [low, high] = std::minmax_element(
      few.begin(), few.end(), [](const Point& a, const Point& b) { return a.y < b.y; });
  EXPECT_EQ(low->x, 777);
  EXPECT_EQ(high->x, 54321);
  EXPECT_TRUE(std::is_sorted(few.begin(), few.end(),
                             [](const Point& a, const Point& b) { return a.x < b.x; }));
}

TEST(Thin, KeepsGaps) {
  std::vector<Point> points = wave(10000);
  points[5000].y = kNan;
  const std::vector<Point> few = thin(points, 100);
  EXPECT_EQ(std::count_if(few.begin(), few.end(), [](const Point& p) { return std::isnan(p.y); }),
            1);
}

TEST(Ticks, AreRoundAndInside) {
  EXPECT_EQ(ticks(0, 100, 5), (std::vector<double>{0, 20, 40, 60, 80, 100}));
  EXPECT_EQ(ticks(2.9, 8.6, 4), (std::vector<double>{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(ticks(-1, 1, 4), (std::vector<double>{-1, -0.5, 0, 0.5, 1}));
  EXPECT_EQ(ticks(7, 7, 4), (std::vector<double>{7}));
  EXPECT_EQ(ticks(kNan, 7, 4).size(), 1U);
}

TEST(Ticks, OfALogarithmAreInside) {
  for (const double high : {1.5, 30.0, 4e3, 1e9, 1e30})
    for (const double t : log_ticks(1, high)) {
      EXPECT_GE(t, 1 - 1e-6);
      EXPECT_LE(t, high * (1 + 1e-6));
    }
  EXPECT_LE(log_ticks(1, 1e30).size(), 6U);
}

TEST(Smooth, KeepsAConstantAndItsGaps) {
  std::vector<Point> flat;
  for (int i = 0; i < 50; ++i) flat.push_back({static_cast<double>(i), i == 20 ? kNan : 2.5});
  const std::vector<Point> out = smooth(flat, 8);
  for (int i = 0; i < 50; ++i) {
    const double y = out[static_cast<std::size_t>(i)].y;
    EXPECT_TRUE(i == 20 ? std::isnan(y) : y == 2.5) << i << ": " << y;
  }
}

TEST(Chart, BreaksTheLineAtWhatIsNoNumber) {
  std::vector<Point> points = wave(10);
  points[4].y = std::numeric_limits<double>::infinity();
  const std::string out = svg(chart_of(points));
  const std::string path = out.substr(out.find(" d=\""));
  EXPECT_EQ(occurrences(path.substr(0, path.find("/>")), "M"), 2);
  EXPECT_EQ(out.find("inf"), std::string::npos);
  EXPECT_EQ(out.find("nan"), std::string::npos);
}

TEST(Chart, ShowsAPointThatStandsAlone) {
  EXPECT_EQ(occurrences(svg(chart_of({{1, 2}})), "<circle"), 1);
  EXPECT_EQ(occurrences(svg(chart_of({{1, kNan}, {2, 3}, {3, kNan}})), "<circle"), 1);
}

TEST(Chart, SaysWhenThereIsNothingToDraw) {
  EXPECT_NE(svg(chart_of({})).find("nothing logged"), std::string::npos);
  EXPECT_NE(svg(chart_of({{1, kNan}})).find("nothing logged"), std::string::npos);
}

TEST(Chart, StaysInsideItsFrameWhateverTheValues) {
  for (const double y : {0.0, 1e-300, -1e300, 1e300, 1.7e308, 5e-324, -7.0}) {
    Chart c = chart_of({{1, y}, {2, 2 * y}, {3, y}});
    for (const bool log : {false, true}) {
      c.log_y = log;
      const std::string out = svg(c);
      EXPECT_EQ(out.find("nan"), std::string::npos) << y;
      EXPECT_LT(out.size(), 10000U) << y;
    }
  }
}

TEST(Chart, IsReadOutToThoseWhoCannotSeeIt) {
  const std::string out = svg(chart_of(wave(5)));
  EXPECT_NE(out.find("role=\"img\""), std::string::npos);
  EXPECT_NE(out.find("<title id=\"test-title\">A &amp; B</title>"), std::string::npos);
  EXPECT_NE(out.find("<desc id=\"test-desc\">"), std::string::npos);
}

TEST(SvgFile, HoldsItsOwnStyleAndNoVariables) {
  const std::string file = svg_file(svg(chart_of(wave(5))));
  EXPECT_TRUE(file.starts_with("<?xml"));
  EXPECT_NE(file.find("width=\"370\" height=\"240\""), std::string::npos);
  EXPECT_NE(file.find("<style>"), std::string::npos);
  EXPECT_EQ(file.find("var("), std::string::npos);
}

TEST(BarChart, DrawsEachSegmentInProportion) {
  BarChart c;
  c.id = "bars";
  c.bars = {{"predicted", {{"weights", 30, 0}, {"state", 60, 1}, {"none", 0, 2}}}};
  const std::string out = svg(c);
  EXPECT_NE(out.find("<title>weights 30</title>"), std::string::npos);
  EXPECT_NE(out.find("<title>state 60</title>"), std::string::npos);
  EXPECT_EQ(out.find("<title>none"), std::string::npos);
}

}  // namespace
}  // namespace lathe::report
