#include "lathe/report/format.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

#include "lathe/base/view.h"

namespace lathe::report {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kNone = "–";

/// Length of the well-formed UTF-8 sequence at the start of s (Unicode 15, table 3-7); 0: none.
std::size_t utf8_length(std::string_view s) {
  const auto at = [&](std::size_t i) { return i < s.size() ? static_cast<u8>(s[i]) : u8{0}; };
  const auto in = [&](std::size_t i, u8 low, u8 high) { return at(i) >= low && at(i) <= high; };
  const u8 lead = at(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return in(1, 0x80, 0xBF) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const u8 low = lead == 0xE0 ? 0xA0 : 0x80, high = lead == 0xED ? 0x9F : 0xBF;
    return in(1, low, high) && in(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const u8 low = lead == 0xF0 ? 0x90 : 0x80, high = lead == 0xF4 ? 0x8F : 0xBF;
    return in(1, low, high) && in(2, 0x80, 0xBF) && in(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

std::string_view entity(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

bool is_control(char c) {
  const auto u = static_cast<u8>(c);
  return (u < 0x20 && c != '\n' && c != '\t') || u == 0x7F;
}

/// v / 1000^n with at most three significant digits and the n-th prefix.
std::string prefixed(double v, const std::array<std::string_view, 6>& prefixes) {
  double magnitude = std::fabs(v);
  std::size_t n = 0;
  // 999.5 would print as "1000"
  for (; magnitude >= 999.5 && n + 1 < prefixes.size(); ++n) magnitude /= 1000;
  const int digits = magnitude >= 99.95 || n == 0 ? 0 : magnitude >= 9.995 ? 1 : 2;
  std::string number = fmt::format("{:.{}f}", magnitude, digits);
  if (n == 0) number = fmt::format("{:.3g}", magnitude);
  if (digits > 0) {
    number.erase(number.find_last_not_of('0') + 1);
    if (number.ends_with('.')) number.pop_back();
  }
  return fmt::format("{}{}{}", v < 0 ? "-" : "", number, prefixes[n]);
}

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  while (!text.empty()) {
    const std::size_t n = utf8_length(text);
    if (n == 0 || (n == 1 && is_control(text[0])))
      out += kReplacement;
    else if (const std::string_view e = entity(text[0]); !e.empty())
      out += e;
    else
      out += text.substr(0, n);
    text.remove_prefix(n == 0 ? 1 : n);
  }
  return out;
}

std::string plain(double v) {
  if (!std::isfinite(v)) return std::string(kNone);
  return fmt::format("{:.4g}", v);
}

std::string count(double v) {
  if (!std::isfinite(v)) return std::string(kNone);
  return prefixed(v, {"", " k", " M", " G", " T", " P"});
}

std::string bytes(double v) {
  if (!std::isfinite(v)) return std::string(kNone);
  return prefixed(v, {" B", " kB", " MB", " GB", " TB", " PB"});
}

std::string duration(double seconds) {
  if (!std::isfinite(seconds)) return std::string(kNone);
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto s = static_cast<i64>(std::llround(seconds));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s % 3600 / 60);
}

std::string percent(double share) {
  if (!std::isfinite(share)) return std::string(kNone);
  return fmt::format("{:.3g} %", 100 * share);
}

}  // namespace lathe::report
