#include "lathe/base/error.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace lathe {

void check_failed(const char* file, int line, const char* condition,
                  const std::string& values) noexcept {
  std::fprintf(stderr,
               "%s:%d: CHECK(%s) failed: %s\nThis is a fault of lathe, not of your input.\n", file,
               line, condition, values.c_str());
  std::abort();
}

}  // namespace lathe
