#pragma once
// Clocks, as every benchmark takes them.

#include <ctime>

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

}  // namespace lathe::bench
