#pragma once
// The number formats an operand of a product may take. A product switches on them once, inside
// kernels/; nothing above does.

#include <array>
#include <string_view>

#include "lathe/base/view.h"

namespace lathe::numerics {

enum class Format : u8 { f64, f32, bf16 };

struct FormatInfo {
  Format format;
  std::string_view name;
  DType storage;  // the type that holds one code
};

inline constexpr std::array kFormats{
    FormatInfo{Format::f64, "f64", DType::f64},
    FormatInfo{Format::f32, "f32", DType::f32},
    FormatInfo{Format::bf16, "bf16", DType::bf16},
};

constexpr const FormatInfo& info(Format f) { return kFormats[static_cast<std::size_t>(f)]; }

}  // namespace lathe::numerics
