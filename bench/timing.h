#pragma once
// Clocks and middles, as every benchmark takes them.

#include <algorithm>
#include <ctime>
#include <vector>

#include "lathe/base/view.h"

namespace lathe::bench {

/// What a timing counts: the time that passed, or the time that the calling thread ran.
enum class Time : u8 { passed, processor };

inline double now(Time time) {
  timespec t{};
  clock_gettime(time == Time::passed ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <class F>
double seconds(const F& f, Time time = Time::passed) {
  const double begin = now(time);
  f();
  return now(time) - begin;
}

/// The upper one of the two where there is no middle; 0 of nothing.
inline double median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

}  // namespace lathe::bench
