#pragma once
// Text for tests: made up, the same every time, with words that come back as in real prose.

#include <string>

#include "lathe/base/rng.h"

namespace lathe::data {

inline std::string sample_text(i64 words, u64 seed) {
  static constexpr const char* kWords[] = {
      "the",   "of",  "and",  "sea",     "ship",     "didn't",  "we'll",  "captain",
      "wind",  "42",  "1815", "harbour", "harbours", "sailing", "sailed", "Größe",
      "naïve", "мир", "世界", "-",       "...",      "\"well\""};
  static constexpr const char* kGaps[] = {" ", " ", " ", " ", ", ", ". ", "\n", "\n\n", "  ", "\t"};
  const Rng rng{seed, Draw::sample, 0};
  std::string text;
  for (i64 i = 0; i < words; ++i) {
    const u64 bits = rng.word(static_cast<u64>(i));
    // the square makes early words frequent
    const u64 pick = bits % std::size(kWords) * (bits >> 20) % std::size(kWords);
    text += kWords[pick];
    text += kGaps[(bits >> 40) % std::size(kGaps)];
  }
  return text;
}

/// Bytes of any kind, UTF-8 or not.
inline std::string random_bytes(i64 size, u64 seed) {
  const Rng rng{seed, Draw::sample, 1};
  std::string bytes;
  for (i64 i = 0; i < size; ++i) {
    const u64 bits = rng.word(static_cast<u64>(i));
    // half of them letters, spaces and the lead bytes of longer sequences
    static constexpr char kLikely[] = "ab 1'\n.s\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
    bytes += bits & 1 ? kLikely[(bits >> 8) % (sizeof kLikely - 1)] : static_cast<char>(bits >> 16);
  }
  return bytes;
}

}  // namespace lathe::data
