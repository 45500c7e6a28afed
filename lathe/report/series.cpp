#include <algorithm>
#include <cmath>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/report/chart.h"

namespace lathe::report {

namespace {

/// What one span of x shows of the points that fall into it.
struct Bucket {
  Point low, high, gap;
  bool any = false, broken = false;

  void add(const Point& p) {
    if (!std::isfinite(p.y)) {
      gap = p;
      broken = true;
      return;
    }
    if (!any || p.y < low.y) low = p;
    if (!any || p.y > high.y) high = p;
    any = true;
  }
  void emit(std::vector<Point>& out) const {
    if (any) {
      out.push_back(low.x <= high.x ? low : high);
      if (low.x != high.x) out.push_back(low.x <= high.x ? high : low);
    }
    if (broken) out.push_back(gap);
  }
};

}  // namespace

std::vector<Point> thin(const std::vector<Point>& points, i64 buckets) {
  if (static_cast<i64>(points.size()) <= 2 * buckets) return points;
  const double begin = points.front().x, span = points.back().x - begin;
  if (!(span > 0)) return {points.front(), points.back()};
  std::vector<Point> out;
  Bucket bucket;
  i64 current = 0;
  for (const Point& p : points) {
    const double place = (p.x - begin) / span * static_cast<double>(buckets);
    const i64 b = std::clamp(static_cast<i64>(place), i64{0}, buckets - 1);
    if (b != current) {
      bucket.emit(out);
      bucket = {};
      current = b;
    }
    bucket.add(p);
  }
  bucket.emit(out);
  return out;
}

std::vector<double> ticks(double low, double high, int wanted) {
  if (!std::isfinite(low) || !std::isfinite(high) || !(high > low)) return {low};
  const double rough = (high - low) / wanted;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  const double lead = rough / power;
  const double step = power * (lead <= 1.5 ? 1 : lead <= 3.5 ? 2 : lead <= 7.5 ? 5 : 10);
  std::vector<double> out;
  // Multiples rather than a running sum, which would drift; the bound ends it whatever the floats.
  const double first = std::ceil(low / step - 1e-9);
  for (int n = 0; n <= 4 * wanted; ++n) {
    const double t = (first + n) * step;
    if (t > high + 1e-9 * step) break;
    out.push_back(t == 0 ? 0 : t);
  }
  return out;
}

std::vector<double> log_ticks(double low, double high) {
  if (!(low > 0) || !(high > low) || !std::isfinite(high)) return {low};
  const double decades = std::log10(high / low);
  const std::vector<int> leads = decades > 3   ? std::vector<int>{1}
                                 : decades > 1 ? std::vector<int>{1, 3}
                                               : std::vector<int>{1, 2, 5};
  const int stride = decades > 6 ? static_cast<int>(decades / 4) : 1;
  std::vector<double> out;
  const int first = static_cast<int>(std::floor(std::log10(low)));
  const int last = static_cast<int>(std::floor(std::log10(high)));
  for (int e = first; e <= last; e += stride)
    for (const int lead : leads)
      if (const double t = lead * std::pow(10, e); t >= low * (1 - 1e-9) && t <= high * (1 + 1e-9))
        out.push_back(t);
  return out;
}

std::vector<Point> smooth(const std::vector<Point>& points, double half_life) {
  std::vector<Point> out;
  out.reserve(points.size());
  double mean = 0;
  i64 seen = 0;
  for (const Point& p : points) {
    if (!std::isfinite(p.y)) {
      out.push_back(p);
      continue;
    }
    const double life = std::min(std::max(1.0, 0.02 * static_cast<double>(++seen)), half_life);
    const double keep = seen == 1 ? 0 : std::exp2(-1 / life);
    mean = keep * mean + (1 - keep) * p.y;
    out.push_back({p.x, mean});
  }
  return out;
}

}  // namespace lathe::report
