#pragma once
// Quantities as people read them.

#include <string>

#include "lathe/base/view.h"

namespace lathe {

/// "512 B", "1.50 kB", "12.3 MB", "1.24 GB": decimal units, three digits.
std::string bytes_text(i64 bytes);

/// "1.24 T", "12.3 M", "950": a count with a decimal prefix, three digits.
std::string count_text(double count);

/// "1,234,567".
std::string grouped(i64 n);

}  // namespace lathe
