#include "lathe/report/compare_series.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <limits>
#include <utility>
#include <vector>

#include "lathe/base/median.h"
#include "lathe/base/view.h"
#include "lathe/report/chart.h"

namespace lathe::report {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

bool stands_out(double y, const std::deque<double>& before) {
  constexpr double kDeviations = 5, kShare = 0.02;
  constexpr double kNormal = 1.4826;  // standard deviation over median distance, normal law
  const std::vector<double> values(before.begin(), before.end());
  const double middle = median(values);
  std::vector<double> distances;
  for (const double v : values) distances.push_back(std::fabs(v - middle));
  return y - middle >
         std::max(kDeviations * kNormal * median(distances), kShare * std::fabs(middle));
}

}  // namespace

std::vector<Point> trailing_mean(const std::vector<Point>& points, i64 window) {
  std::vector<Point> out;
  out.reserve(points.size());
  // A running sum that subtracts would let one huge value of a run that diverges spoil all later
  // means; blocks of `window` with sums from either end take no difference.
  const auto w = static_cast<std::size_t>(window);
  std::vector<double> tail_sum(w + 1);  // of the block before, from an index to its end
  std::vector<double> tail_count(w + 1);
  double sum = 0, n = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::size_t at = i % w;
    if (at == 0 && i > 0) {
      tail_sum[w] = tail_count[w] = 0;
      for (std::size_t k = w; k-- > 0;) {
        const double y = points[i - w + k].y;
        tail_sum[k] = tail_sum[k + 1] + (std::isfinite(y) ? y : 0);
        tail_count[k] = tail_count[k + 1] + (std::isfinite(y) ? 1 : 0);
      }
      sum = n = 0;
    }
    const double y = points[i].y;
    if (std::isfinite(y)) sum += y, n += 1;
    const double all = sum + tail_sum[at + 1], known = n + tail_count[at + 1];
    out.push_back({points[i].x, known > 0 ? all / known : kUnknown});
  }
  return out;
}

std::vector<Point> difference(const std::vector<Point>& a, const std::vector<Point>& b) {
  std::vector<Point> out;
  for (std::size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    if (a[i].x == b[k].x) {
      out.push_back({a[i].x, a[i].y - b[k].y});
      ++i, ++k;
    } else {
      (a[i].x < b[k].x ? i : k) += 1;
    }
  }
  return out;
}

std::vector<Point> spread(const std::vector<std::vector<Point>>& series) {
  if (series.size() < 2) return {};
  // y holds the smallest so far, `high` the largest.
  std::vector<Point> low = series.front(), high = series.front();
  for (std::size_t i = 1; i < series.size(); ++i) {
    std::vector<Point> next_low, next_high;
    std::size_t k = 0;
    for (std::size_t at = 0; at < low.size(); ++at) {
      while (k < series[i].size() && series[i][k].x < low[at].x) ++k;
      if (k == series[i].size() || series[i][k].x != low[at].x) continue;
      const double y = series[i][k].y;
      const bool known = std::isfinite(y) && std::isfinite(low[at].y);
      next_low.push_back({low[at].x, known ? std::min(low[at].y, y) : kUnknown});
      next_high.push_back({low[at].x, known ? std::max(high[at].y, y) : kUnknown});
    }
    low = std::move(next_low);
    high = std::move(next_high);
  }
  return difference(high, low);
}

std::vector<Point> trailing_peak(const std::vector<Point>& points, double span) {
  std::vector<Point> out;
  out.reserve(points.size());
  std::deque<Point> candidates;  // descending in y
  for (const Point& p : points) {
    while (!candidates.empty() && candidates.front().x <= p.x - span) candidates.pop_front();
    if (std::isfinite(p.y)) {
      while (!candidates.empty() && candidates.back().y <= p.y) candidates.pop_back();
      candidates.push_back(p);
    }
    out.push_back({p.x, candidates.empty() ? kUnknown : candidates.front().y});
  }
  return out;
}

double last_value(const std::vector<Point>& points) {
  return points.empty() ? kUnknown : points.back().y;
}

i64 count_spikes(const std::vector<Point>& points) {
  constexpr std::size_t kFewest = 20, kMost = 50;
  i64 spikes = 0;
  std::deque<double> before;
  for (const Point& p : points) {
    if (!std::isfinite(p.y)) continue;
    if (before.size() >= kFewest && stands_out(p.y, before)) ++spikes;
    before.push_back(p.y);
    if (before.size() > kMost) before.pop_front();
  }
  return spikes;
}

}  // namespace lathe::report
