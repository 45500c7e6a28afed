#pragma once
// One line a record. Results go to stdout; what a person should know beside them goes to stderr, so
// that output can be piped.

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "lathe/base/view.h"

namespace lathe {

enum class Level : u8 { note, warning };

/// Writes a note as it is and a warning after the word "warning: ", as one line, to stderr, at once
/// and whole (lines of several threads do not mix).
void log_line(Level level, std::string_view text);

template <class... A>
void note(fmt::format_string<A...> text, A&&... args) {
  log_line(Level::note, fmt::format(text, std::forward<A>(args)...));
}
template <class... A>
void warn(fmt::format_string<A...> text, A&&... args) {
  log_line(Level::warning, fmt::format(text, std::forward<A>(args)...));
}

}  // namespace lathe
