#pragma once

#include <string_view>

namespace lathe {

inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace lathe
