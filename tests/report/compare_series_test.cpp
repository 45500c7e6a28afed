#include "lathe/report/compare_series.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/report/chart.h"

namespace lathe::report {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

std::vector<Point> steps(const std::vector<double>& values) {
  std::vector<Point> out;
  for (std::size_t i = 0; i < values.size(); ++i)
    out.push_back({static_cast<double>(i + 1), values[i]});
  return out;
}

std::vector<double> ys(const std::vector<Point>& points) {
  std::vector<double> out;
  for (const Point& p : points) out.push_back(p.y);
  return out;
}

TEST(TrailingMean, IsThatOfTheLastPointsUpToEach) {
  EXPECT_EQ(ys(trailing_mean(steps({8, 4, 2, 6, 10, 2, 0}), 3)),
            (std::vector<double>{8, 6, 14.0 / 3, 4, 6, 6, 4}));
  EXPECT_EQ(ys(trailing_mean(steps({8, 4, 2}), 1)), (std::vector<double>{8, 4, 2}));
  EXPECT_EQ(ys(trailing_mean(steps({8, 4}), 9)), (std::vector<double>{8, 6}));
  EXPECT_TRUE(trailing_mean({}, 3).empty());
}

TEST(TrailingMean, EqualsTheMeanTakenAfreshForEveryWindowAndLength) {
  for (i64 window = 1; window <= 9; ++window)
    for (std::size_t n = 1; n <= 40; ++n) {
      std::vector<double> values;
      for (std::size_t i = 0; i < n; ++i) values.push_back(static_cast<double>((i * 37) % 64));
      const std::vector<Point> means = trailing_mean(steps(values), window);
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t first =
            i + 1 > static_cast<std::size_t>(window) ? i + 1 - static_cast<std::size_t>(window) : 0;
        double sum = 0;  // of small whole numbers: exact in any order
        for (std::size_t k = first; k <= i; ++k) sum += values[k];
        EXPECT_EQ(means[i].y, sum / static_cast<double>(i - first + 1)) << window << " " << i;
      }
    }
}

TEST(TrailingMean, LeavesOutWhatIsUnknownAndForgetsHugeValues) {
  const std::vector<double> m = ys(trailing_mean(steps({kNone, 4, kNone, kNone, 2}), 2));
  EXPECT_TRUE(std::isnan(m[0]));
  EXPECT_EQ(m[1], 4);
  EXPECT_EQ(m[2], 4);
  EXPECT_TRUE(std::isnan(m[3]));
  EXPECT_EQ(m[4], 2);
  EXPECT_EQ(ys(trailing_mean(steps({1, 1e300, 1, 1, 1}), 2)).back(), 1);
}

TEST(Difference, IsTakenWhereBothHaveAPoint) {
  const std::vector<Point> a{{1, 5}, {3, 7}, {4, 1}}, b{{1, 2}, {2, 9}, {4, 4}, {5, 5}};
  const std::vector<Point> d = difference(a, b);
  ASSERT_EQ(d.size(), 2U);
  EXPECT_EQ(d[0].x, 1);
  EXPECT_EQ(d[0].y, 3);
  EXPECT_EQ(d[1].x, 4);
  EXPECT_EQ(d[1].y, -3);
}

TEST(Spread, IsTheLargestDifferenceOfAnyTwo) {
  EXPECT_EQ(ys(spread({steps({5, 1}), steps({2, 2}), steps({4, 7})})), (std::vector<double>{3, 6}));
  EXPECT_TRUE(spread({steps({5, 1})}).empty());
  EXPECT_TRUE(spread({}).empty());
  EXPECT_EQ(spread({steps({5, 1, 3}), {{2, 4}}}).size(), 1U);
  EXPECT_TRUE(std::isnan(spread({steps({5, kNone}), steps({1, 2})})[1].y));
}

TEST(TrailingPeak, LooksBackOverItsSpanAlone) {
  EXPECT_EQ(ys(trailing_peak(steps({1, 5, 2, 3, 1, 0}), 3)),
            (std::vector<double>{1, 5, 5, 5, 3, 3}));
  EXPECT_EQ(ys(trailing_peak(steps({3, 1}), 0.5)), (std::vector<double>{3, 1}));
  EXPECT_TRUE(std::isnan(trailing_peak(steps({kNone, 1}), 2)[0].y));
  EXPECT_EQ(trailing_peak(steps({kNone, 1}), 2)[1].y, 1);
}

TEST(Spikes, AreStepsFarAboveThoseBeforeThem) {
  std::vector<double> flat(30, 4.0);
  EXPECT_EQ(count_spikes(steps(flat)), 0);
  // With no scatter at all the 2 % of the median decide: 4.08.
  flat.push_back(4.0625);
  EXPECT_EQ(count_spikes(steps(flat)), 0);
  flat.push_back(4.125);
  EXPECT_EQ(count_spikes(steps(flat)), 1);
  flat.push_back(5);
  EXPECT_EQ(count_spikes(steps(flat)), 2);
}

TEST(Spikes, AreMeasuredByTheScatterBeforeThem) {
  // 4, 4.5 and 5 in turn: median 4.5, two of three distances 0.5: above 4.5 + 3.7065 is a spike.
  std::vector<double> wide;
  for (int i = 0; i < 50; ++i) wide.push_back(4 + 0.5 * (i % 3));
  wide.push_back(8.1875);
  EXPECT_EQ(count_spikes(steps(wide)), 0);
  wide.back() = 8.25;
  EXPECT_EQ(count_spikes(steps(wide)), 1);
}

TEST(Spikes, NeedTwentyStepsBeforeThem) {
  std::vector<double> few(19, 4.0);
  few.push_back(9);
  EXPECT_EQ(count_spikes(steps(few)), 0);
  few.insert(few.begin(), 4.0);
  EXPECT_EQ(count_spikes(steps(few)), 1);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Chart, DrawsABandAroundZeroBehindItsLines) {
  Chart c;
  c.id = "gap";
  c.lines = {{"a", steps({1, 0.5}), 0, false, false}};
  EXPECT_FALSE(has(svg(c), "class=\"band\""));
  c.band = steps({4, 4});
  const std::string drawn = svg(c);
  ASSERT_TRUE(has(drawn, "class=\"band\""));
  EXPECT_LT(drawn.find("class=\"band\""), drawn.find("class=\"line"));
  EXPECT_TRUE(has(drawn, ">-4</text>") || has(drawn, ">-2</text>"));  // the axis reaches below 0
}

TEST(Chart, TellsLinesApartByDashesAndNeedsNoLegend) {
  Chart c;
  c.id = "gap";
  c.lines = {{"first", steps({1, 2}), 0, false, false, 1}, {"second", steps({1, 3}), 0}};
  EXPECT_TRUE(has(svg(c), "line s0 dashed"));
  EXPECT_TRUE(has(svg(c), ">first</text>"));
  c.legend = false;
  EXPECT_FALSE(has(svg(c), ">first</text>"));
}

}  // namespace
}  // namespace lathe::report
