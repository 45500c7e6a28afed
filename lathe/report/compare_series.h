#pragma once
// Series of (step, value) points as compare.h needs them. x ascends in every series; a y that is
// not finite stands for a value that is not known.

#include <vector>

#include "lathe/base/view.h"
#include "lathe/report/chart.h"

namespace lathe::report {

/// At each point the mean over it and those before it, `window` points in all (fewer at the
/// start), of the values that are known; NaN where none is. window >= 1.
std::vector<Point> trailing_mean(const std::vector<Point>& points, i64 window);

/// a - b at every x that both have.
std::vector<Point> difference(const std::vector<Point>& a, const std::vector<Point>& b);

/// At every x that all series have: largest minus smallest value, which is the largest difference
/// between any two. NaN where one is not known; empty for fewer than two series.
std::vector<Point> spread(const std::vector<std::vector<Point>>& series);

/// At each x the largest known y among the points in (x - span, x]; NaN where there is none.
std::vector<Point> trailing_peak(const std::vector<Point>& points, double span);

/// The y at the last point; NaN when there is none.
double last_value(const std::vector<Point>& points);

/// Points whose y stands out from those before it: above the median of the 50 known values before
/// it (at least 20) by more than 5 robust standard deviations of them (1.4826 times the median
/// distance from the median) and by more than 2 % of the median.
i64 count_spikes(const std::vector<Point>& points);

}  // namespace lathe::report
