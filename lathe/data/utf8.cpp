#include "lathe/data/utf8.h"

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/base/view.h"

namespace lathe::data {

namespace {

/// Bytes of the sequence that `lead` starts, 0 where it can start none, and the range of its second
/// byte: that is where overlong forms, surrogates and what lies past U+10FFFF are kept out.
struct Lead {
  std::size_t length;
  u8 low, high;
};

Lead lead_of(u8 lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead < 0xF0) return {3, u8(lead == 0xE0 ? 0xA0 : 0x80), u8(lead == 0xED ? 0x9F : 0xBF)};
  if (lead < 0xF5) return {4, u8(lead == 0xF0 ? 0x90 : 0x80), u8(lead == 0xF4 ? 0x8F : 0xBF)};
  return {0, 0, 0};
}

/// How many bytes at the start fit the sequence that the first one announces.
std::size_t fitting(std::string_view text, const Lead& lead) {
  if (lead.length < 2) return lead.length;
  std::size_t n = 1;
  for (; n < lead.length && n < text.size(); ++n) {
    const auto b = static_cast<u8>(text[n]);
    if (b < (n == 1 ? lead.low : 0x80) || b > (n == 1 ? lead.high : 0xBF)) break;
  }
  return n;
}

}  // namespace

std::size_t valid_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    u64 eight = 0;
    while (at + 8 <= text.size()) {
      std::memcpy(&eight, text.data() + at, 8);
      if (eight & 0x8080808080808080u) break;
      at += 8;
    }
    if (at == text.size()) break;
    const Lead lead = lead_of(static_cast<u8>(text[at]));
    if (lead.length == 0 || fitting(text.substr(at), lead) < lead.length) break;
    at += lead.length;
  }
  return at;
}

std::size_t bad_length(std::string_view text) {
  const std::size_t n = fitting(text, lead_of(static_cast<u8>(text[0])));
  return n == 0 ? 1 : n;
}

bool is_cut_short(std::string_view text) {
  if (text.empty()) return false;
  const Lead lead = lead_of(static_cast<u8>(text[0]));
  return lead.length > text.size() && fitting(text, lead) == text.size();
}

void append_repaired(std::string& out, std::string_view text, std::vector<i64>& offsets) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t good = valid_prefix(text.substr(at));
    out.append(text.substr(at, good));
    at += good;
    if (at == text.size()) break;
    offsets.push_back(static_cast<i64>(at));
    out.append("\xEF\xBF\xBD");
    at += bad_length(text.substr(at));
  }
}

}  // namespace lathe::data
