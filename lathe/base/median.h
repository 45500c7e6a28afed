#pragma once
// The middle of a set of numbers.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace lathe {

/// The middle value, or the mean of the two in the middle; NaN of nothing. No value may be NaN.
inline double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace lathe
