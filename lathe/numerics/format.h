#pragma once
// The number formats an operand of a product may take, as data. A product switches on them once,
// inside kernels/; nothing above does. Encoding and decoding one value: cast.h.
//
// Sources: IEEE 754; OCP 8-bit Floating Point (E4M3, E5M2); OCP Microscaling Formats v1.0 (E2M3,
// E3M2, E2M1, MXINT8, E8M0); arXiv 2409.16626 (HiF8); arXiv 2602.11287 (HiF4: S1P2, E6M2).

#include <array>
#include <string>
#include <string_view>

#include "lathe/base/view.h"

namespace lathe::numerics {

enum class Format : u8 {
  f64,
  f32,
  bf16,
  tf32,
  fp16,
  e4m3,
  e5m2,
  e4m3fnuz,
  e5m2fnuz,
  e2m3,
  e3m2,
  e2m1,
  mxint8,
  e8m0,
  hif8,
  s1p2,  // the element of HiF4
  e6m2,  // the scale of HiF4
};

/// How a code is read.
enum class Kind : u8 {
  ieee,     // sign, exponent, mantissa; the largest exponent holds infinities and NaNs
  finite,   // the same with every code a number, but for a NaN where there is one (E4M3)
  fnuz,     // the same without infinity and -0, whose code is the only NaN
  twos,     // two's complement: an integer times the smallest value
  sign,     // sign and magnitude: an integer times the smallest value
  scale,    // unsigned, no zero, no subnormals; all ones is NaN
  tapered,  // HiF8: the exponent says how many bits the mantissa has
};

struct FormatInfo {
  Format format;
  std::string_view name;
  DType storage;  // the narrowest type of a tensor that holds every value of it exactly
  Kind kind;
  int bits;           // of a code
  int exponent_bits;  // 0: none, or no fixed number
  int mantissa_bits;  // stored; of HiF8, the most
  int bias;
  int significand_bits;  // the most that a value needs: |value| = m 2^q with m < 2^significand_bits
  bool has_infinity, has_minus_zero, has_nan;
  u32 infinity, nan;  // codes: of +inf, and the canonical NaN; 0 where there is none
  double largest;     // finite
  double min_normal;  // smaller values are subnormal; where none is, the smallest
  double smallest;    // above zero

  constexpr int unused_bits() const { return format == Format::tf32 ? 13 : 0; }  // lowest, zero
  constexpr bool is_signed() const { return kind != Kind::scale; }
  constexpr u32 sign_bit() const { return is_signed() ? u32{1} << (bits - 1) : 0; }
  constexpr u32 mask() const { return bits >= 32 ? ~u32{0} : (u32{1} << bits) - 1; }
};

// clang-format off
inline constexpr std::array kFormats{
    // name, storage, kind; bits, exponent, mantissa, bias, significand; inf, -0, nan; codes of inf
    // and nan; largest, min normal, smallest
    FormatInfo{Format::f64, "fp64", DType::f64, Kind::ieee, 64, 11, 52, 1023, 53,
               true, true, true, 0, 0, 0x1.fffffffffffffp1023, 0x1p-1022, 0x1p-1074},
    FormatInfo{Format::f32, "fp32", DType::f32, Kind::ieee, 32, 8, 23, 127, 24,
               true, true, true, 0x7f800000, 0x7fc00000, 0x1.fffffep127, 0x1p-126, 0x1p-149},
    FormatInfo{Format::bf16, "bf16", DType::bf16, Kind::ieee, 16, 8, 7, 127, 8,
               true, true, true, 0x7f80, 0x7fc0, 0x1.fep127, 0x1p-126, 0x1p-133},
    FormatInfo{Format::tf32, "tf32", DType::f32, Kind::ieee, 32, 8, 10, 127, 11,
               true, true, true, 0x7f800000, 0x7fc00000, 0x1.ffcp127, 0x1p-126, 0x1p-136},
    FormatInfo{Format::fp16, "fp16", DType::f32, Kind::ieee, 16, 5, 10, 15, 11,
               true, true, true, 0x7c00, 0x7e00, 65504, 0x1p-14, 0x1p-24},
    FormatInfo{Format::e4m3, "e4m3", DType::bf16, Kind::finite, 8, 4, 3, 7, 4,
               false, true, true, 0, 0x7f, 448, 0x1p-6, 0x1p-9},
    FormatInfo{Format::e5m2, "e5m2", DType::bf16, Kind::ieee, 8, 5, 2, 15, 3,
               true, true, true, 0x7c, 0x7e, 57344, 0x1p-14, 0x1p-16},
    FormatInfo{Format::e4m3fnuz, "e4m3fnuz", DType::bf16, Kind::fnuz, 8, 4, 3, 8, 4,
               false, false, true, 0, 0x80, 240, 0x1p-7, 0x1p-10},
    FormatInfo{Format::e5m2fnuz, "e5m2fnuz", DType::bf16, Kind::fnuz, 8, 5, 2, 16, 3,
               false, false, true, 0, 0x80, 57344, 0x1p-15, 0x1p-17},
    FormatInfo{Format::e2m3, "e2m3", DType::bf16, Kind::finite, 6, 2, 3, 1, 4,
               false, true, false, 0, 0, 7.5, 1, 0.125},
    FormatInfo{Format::e3m2, "e3m2", DType::bf16, Kind::finite, 6, 3, 2, 3, 3,
               false, true, false, 0, 0, 28, 0.25, 0.0625},
    FormatInfo{Format::e2m1, "e2m1", DType::bf16, Kind::finite, 4, 2, 1, 1, 2,
               false, true, false, 0, 0, 6, 1, 0.5},
    FormatInfo{Format::mxint8, "mxint8", DType::bf16, Kind::twos, 8, 0, 6, 0, 7,
               false, false, false, 0, 0, 127.0 / 64, 0x1p-6, 0x1p-6},
    FormatInfo{Format::e8m0, "e8m0", DType::bf16, Kind::scale, 8, 8, 0, 127, 1,
               false, false, true, 0, 0xff, 0x1p127, 0x1p-127, 0x1p-127},
    FormatInfo{Format::hif8, "hif8", DType::bf16, Kind::tapered, 8, 0, 3, 23, 4,
               true, false, true, 0x6f, 0x80, 0x1p15, 0x1p-15, 0x1p-22},
    FormatInfo{Format::s1p2, "s1p2", DType::bf16, Kind::sign, 4, 0, 2, 0, 3,
               false, true, false, 0, 0, 1.75, 0.25, 0.25},
    FormatInfo{Format::e6m2, "e6m2", DType::bf16, Kind::scale, 8, 6, 2, 48, 3,
               false, false, true, 0, 0xff, 0x1.8p15, 0x1p-48, 0x1p-48},
};
// clang-format on

constexpr const FormatInfo& info(Format f) { return kFormats[static_cast<std::size_t>(f)]; }

/// Throws Error naming the nearest known format. "hif4" is its element, S1P2; fp64 is none of them.
Format format(const std::string& name);

}  // namespace lathe::numerics
