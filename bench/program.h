#pragma once
// The frame of every benchmark's main().

#include <fmt/format.h>

#include <cstdio>

#include "lathe/base/error.h"

namespace lathe::bench {

/// Runs f; tells an Error on stderr. Returns the exit code.
template <class F>
int program(const F& f) {
  try {
    f();
    return 0;
  } catch (const Error& e) {
    fmt::print(stderr, "{}", e.report());
    return 2;
  }
}

}  // namespace lathe::bench
