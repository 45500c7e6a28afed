#pragma once
// Numbers and text as a page shows them. Pure functions; "–" stands for a value that is not finite.

#include <string>
#include <string_view>

#include "lathe/base/view.h"

namespace lathe::report {

/// Text for HTML or SVG, inside an element or a quoted attribute: & < > " ' become entities; bytes
/// that are no UTF-8 and control characters (tab and newline stay) become U+FFFD.
std::string escape(std::string_view text);

/// Three or more significant digits, no trailing zeros: "3.218", "0.00035", "1.2e-09".
std::string plain(double v);
/// With a decimal prefix: "850", "12.3 k", "15.2 M", "1.37 T".
std::string count(double v);
/// Bytes by powers of ten: "512 B", "98.1 MB", "1.62 GB".
std::string bytes(double v);
/// "0.8 s", "42 s", "6 min 12 s", "3 h 05 min".
std::string duration(double seconds);
/// 0.437 as "43.7 %".
std::string percent(double share);

}  // namespace lathe::report
