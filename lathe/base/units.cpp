#include "lathe/base/units.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

#include "lathe/base/view.h"

namespace lathe {

namespace {

constexpr std::array<std::string_view, 7> kPrefixes{"", "k", "M", "G", "T", "P", "E"};

/// Three digits and the prefix that makes the number smaller than 1000.
std::string scaled(double x, std::string_view unit) {
  std::size_t p = 0;
  // 999.5 already rounds to four digits.
  while (std::abs(x) >= 999.5 && p + 1 < kPrefixes.size()) {
    x /= 1000;
    ++p;
  }
  const int decimals = p == 0 || std::abs(x) >= 99.95 ? 0 : std::abs(x) >= 9.995 ? 1 : 2;
  const std::string_view space = p == 0 && unit.empty() ? "" : " ";
  return fmt::format("{:.{}f}{}{}{}", x, decimals, space, kPrefixes[p], unit);
}

}  // namespace

std::string bytes_text(i64 bytes) { return scaled(static_cast<double>(bytes), "B"); }

std::string count_text(double count) { return scaled(count, ""); }

std::string grouped(i64 n) {
  const std::string digits = fmt::format("{}", n);
  std::string s;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool first = i == 0 || (i == 1 && n < 0);
    if (!first && (digits.size() - i) % 3 == 0) s += ',';
    s += digits[i];
  }
  return s;
}

}  // namespace lathe
