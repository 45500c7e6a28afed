#include "lathe/base/log.h"

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace lathe {

void log_line(Level level, std::string_view text) {
  const std::string line = fmt::format("{}{}\n", level == Level::warning ? "warning: " : "", text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace lathe
