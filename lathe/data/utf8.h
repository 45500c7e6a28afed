#pragma once
// UTF-8 as Unicode 15 section 3.9 defines it: which bytes are well-formed, and what stands for
// those that are not.

#include <string>
#include <string_view>
#include <vector>

#include "lathe/base/view.h"

namespace lathe::data {

/// Length of the longest well-formed prefix. A sequence that the end cuts short is not part of it.
std::size_t valid_prefix(std::string_view text);

/// Length of the ill-formed sequence that `text` starts with: the "maximal subpart" that one U+FFFD
/// stands for, 1 to 3 bytes. `text` must start with one.
std::size_t bad_length(std::string_view text);

/// Whether `text` starts with the beginning of a well-formed sequence that its end cuts short.
bool is_cut_short(std::string_view text);

/// Appends `text` to `out` with U+FFFD for each ill-formed sequence, and to `offsets` where each of
/// them starts.
void append_repaired(std::string& out, std::string_view text, std::vector<i64>& offsets);

/// Calls good(run) for each run of well-formed text and bad(run) for each run of bytes that belong
/// to none, in order; no run is empty.
template <class Good, class Bad>
void for_runs(std::string_view text, const Good& good, const Bad& bad) {
  while (!text.empty()) {
    const std::size_t n = valid_prefix(text);
    if (n > 0) good(text.substr(0, n));
    text.remove_prefix(n);
    std::size_t wrong = 0;
    while (wrong < text.size()) {
      const std::string_view rest = text.substr(wrong);
      if (valid_prefix(rest.substr(0, 4)) > 0) break;
      wrong += bad_length(rest);
    }
    if (wrong > 0) bad(text.substr(0, wrong));
    text.remove_prefix(wrong);
  }
}

}  // namespace lathe::data
