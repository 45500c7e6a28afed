#pragma once
// One value to the code of a format and back, exactly: what every faster encoder is held against.
// Integer arithmetic on the bits of the double: no rounding mode, no MXCSR and no libm has a say.
//
// A conversion is not "to a format" but a choice on six axes. Five are the fields of Cast; the
// sixth, the number of roundings, is always one: the value goes straight from the double (or the
// float, which a double holds exactly) to the format.

#include <vector>

#include "lathe/base/view.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"

namespace lathe::numerics {

/// What becomes of values that overflow, and of infinities.
enum class Overflow : u8 {
  saturate,       // both: the largest finite value
  nonsaturate,    // both: infinity; without one NaN, with the sign; without one the largest
  keep_infinity,  // saturate, but an infinity stays as under nonsaturate
};

enum class Nan : u8 {
  canonical,   // FormatInfo::nan; without one the largest value, as PTX .satfinite does
  keep_sign,   // the same, with the sign of the NaN where a code has it
  zero,        // +0 (E8M0 and E6M2, which have none: NaN)
  minus_zero,  // -0 where there is one, else zero
};

enum class Subnormal : u8 {
  keep,
  flush_input,   // magnitudes below FP32's 2^-126 count as zero (DAZ)
  flush_output,  // results below FormatInfo::min_normal become zero (FTZ), after rounding
  flush_both,
};

enum class MinusZero : u8 { keep, drop };

struct Cast {
  Tie tie = Tie::even;
  Overflow overflow = Overflow::saturate;
  Nan nan = Nan::canonical;
  Subnormal subnormals = Subnormal::keep;
  MinusZero minus_zero = MinusZero::keep;
  int random_bits = 32;  // 1..32, the lowest of `random`: probabilities are right to 2^-random_bits
  bool operator==(const Cast&) const = default;
};

/// Saturating, nearest: ties away in HiF8, as its paper has it, to even elsewhere.
constexpr Cast usual_cast(Format f) { return {.tie = f == Format::hif8 ? Tie::away : Tie::even}; }

/// The code of x, in the low bits; FP32 and TF32 codes are bit patterns of a float. Every double is
/// fine. `random` is read by Tie::stochastic alone. E8M0 and E6M2 turn what is below their smallest
/// value into it, zero too unless nonsaturate makes that NaN, and negative values into NaN. Not for
/// f64.
u32 encode(Format f, double x, const Cast& c, u32 random = 0);

/// The value of a code. Bits above the format's width are ignored, and so are TF32's low 13, as
/// tensor cores do, unless the whole is a NaN. Not for f64.
double decode(Format f, u32 code);

/// Every finite value, ascending, -0 left out. For formats of 16 bits or less.
std::vector<double> finite_values(Format f);

/// 2^e, for e in -1022..1023.
double power_of_two(int e);

/// floor(log2 |x|) of a finite x other than zero.
int exponent_of(double x);

}  // namespace lathe::numerics
