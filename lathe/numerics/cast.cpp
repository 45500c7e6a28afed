// A value is m 2^q with a whole m of 53 bits; the format has, near it, the multiples of a step 2^Q.
// So rounding is cutting Q - q bits off m and looking at what was cut, whatever the format, and the
// formats differ in Q alone. Rounding up may carry into the next binade, whose first value is a
// multiple of every smaller step, and so is representable.

#include "lathe/numerics/cast.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/numerics/format.h"

namespace lathe::numerics {

namespace {

constexpr u64 kMantissa = (u64{1} << 52) - 1;
constexpr u64 kInfinity = u64{0x7ff} << 52;
constexpr int kSmallestHif8 = -22;  // exponents; below kNormalHif8 only powers of two
constexpr int kNormalHif8 = -15;

/// |x| = m 2^(exponent - 52), the highest bit of m being bit 52.
struct Parts {
  u64 m;
  int exponent;
};

Parts split(u64 magnitude) {
  const int field = static_cast<int>(magnitude >> 52);
  if (field > 0) return {(magnitude & kMantissa) | (u64{1} << 52), field - 1023};
  const int shift = std::countl_zero(magnitude) - 11;
  return {magnitude << shift, -1022 - shift};
}

int mantissa_bits_hif8(int exponent) {
  const int a = std::abs(exponent);
  return exponent < kNormalHif8 ? 0 : a <= 3 ? 3 : a <= 7 ? 2 : 1;
}

/// Q: the values of the format in the binade of 2^exponent are multiples of 2^Q.
int step_exponent(const FormatInfo& i, int exponent) {
  switch (i.kind) {
    case Kind::ieee:
    case Kind::finite:
    case Kind::fnuz:
      return std::max(exponent, 1 - i.bias) - i.mantissa_bits;
    case Kind::scale:
      return exponent - i.mantissa_bits;
    case Kind::twos:
    case Kind::sign:
      return -i.mantissa_bits;
    case Kind::tapered:
      return std::max(exponent - mantissa_bits_hif8(exponent), kSmallestHif8);
  }
  return 0;
}

/// The last bit of the code of k 2^Q. It is k's, except where a binade holds one value.
bool is_odd(const FormatInfo& i, u64 k, int exponent, int q) {
  const bool one_value = q == exponent && (i.kind == Kind::scale || i.kind == Kind::tapered);
  return one_value ? ((exponent + i.bias) & 1) != 0 : (k & 1) != 0;
}

/// HR (arXiv 2409.16626, section 3) for a source in FP32: the highest 14 of the bits cut off
/// against the lowest 14 of the mantissa stand for a random threshold. Read literally, it would
/// move values that need no rounding (0 >= 0); those stay. 2^-23 and up to 2^-22 keep their leading
/// bit among the cut ones.
bool hybrid_goes_up(const Parts& p, bool nearest_goes_up) {
  if (std::abs(p.exponent) < 4) return nearest_goes_up;
  if (p.exponent < kSmallestHif8 - 1) return false;
  const u64 mantissa = (p.m >> 29) & 0x7fffff;
  const int cut = 23 - mantissa_bits_hif8(p.exponent);
  const u64 first = p.exponent < kSmallestHif8 ? (mantissa >> 10) + 8192
                                               : (mantissa & ((u64{1} << cut) - 1)) >> (cut - 14);
  return first >= (mantissa & 0x3fff);
}

/// Of the bits cut off, `cut` of them: whether the value goes to the neighbour above.
bool goes_up(const FormatInfo& i, const Parts& p, int q, int cut, const Cast& c, u32 random) {
  const u64 k = cut < 64 ? p.m >> cut : 0;
  const u64 rest = cut < 64 ? p.m & ((u64{1} << cut) - 1) : p.m;
  if (rest == 0) return false;
  if (c.tie == Tie::stochastic) {
    const int n = c.random_bits;
    const u64 fraction = cut - n >= 64 ? 0 : cut >= n ? rest >> (cut - n) : rest << (n - cut);
    return (fraction + (random & ((u64{1} << n) - 1))) >> n != 0;
  }
  // m < 2^53, so what is cut by 54 bits or more is below one half.
  const u64 half = u64{1} << (std::min(cut, 54) - 1);
  const bool above = cut < 54 && rest > half, tie = cut < 54 && rest == half;
  if (c.tie == Tie::hybrid) return hybrid_goes_up(p, above || tie);
  return above || (tie && (c.tie == Tie::away || is_odd(i, k, p.exponent, q)));
}

u32 hif8_code(double magnitude) {
  const int e = exponent_of(magnitude), a = std::abs(e);
  if (e < kNormalHif8) return static_cast<u32>(e + 23);
  const int bits = mantissa_bits_hif8(e);
  const auto f =
      static_cast<u32>((std::bit_cast<u64>(magnitude) >> (52 - bits)) & ((u64{1} << bits) - 1));
  const u32 s = e < 0;
  const auto rest = static_cast<u32>(a);  // the magnitude of the exponent, then without its 1
  if (a == 0) return 0x08 | f;
  if (a == 1) return 0x10 | s << 3 | f;
  if (a < 4) return 0x20 | s << 4 | (rest - 2) << 3 | f;
  if (a < 8) return 0x40 | s << 4 | (rest - 4) << 2 | f;
  return 0x60 | s << 4 | (rest - 8) << 1 | f;
}

double hif8_magnitude(u32 c) {
  if (c < 0x08) return c == 0 ? 0 : power_of_two(static_cast<int>(c) - 23);
  const auto value = [&](int a, int bits, bool minus) {
    const u32 significand = (u32{1} << bits) | (c & ((u32{1} << bits) - 1));
    return significand * power_of_two((minus ? -a : a) - bits);
  };
  const auto field = [&](int shift, u32 mask) { return static_cast<int>((c >> shift) & mask); };
  if (c < 0x10) return value(0, 3, false);
  if (c < 0x20) return value(1, 3, (c & 0x08) != 0);
  if (c < 0x40) return value(2 + field(3, 1), 3, (c & 0x10) != 0);
  if (c < 0x60) return value(4 + field(2, 3), 2, (c & 0x10) != 0);
  return value(8 + field(1, 7), 1, (c & 0x10) != 0);
}

/// The code of k 2^q, a value of the format; the sign is added as the format has it.
u32 code_of(const FormatInfo& i, u64 k, int q, bool negative) {
  const auto n = static_cast<u32>(k);
  const u32 sign = negative ? i.sign_bit() : 0;
  switch (i.kind) {
    case Kind::twos:
      return (negative ? ~n + 1 : n) & i.mask();
    case Kind::sign:
      return n | sign;
    case Kind::tapered:
      return hif8_code(static_cast<double>(k) * power_of_two(q)) | sign;
    default: {
      // k brings its leading bit, which is one exponent; a carry brings two.
      const u32 exponent = static_cast<u32>(q + i.mantissa_bits + i.bias - 1);
      return ((n + (exponent << i.mantissa_bits)) << i.unused_bits()) | sign;
    }
  }
}

u32 zero_code(const FormatInfo& i, const Cast& c, bool negative) {
  if (i.kind == Kind::scale) return c.overflow == Overflow::nonsaturate ? i.nan : 0;
  return negative && c.minus_zero == MinusZero::keep && i.has_minus_zero ? i.sign_bit() : 0;
}

u32 largest_code(const FormatInfo& i, bool negative) {
  if (i.kind == Kind::scale && negative) return i.nan;
  if (i.kind == Kind::twos && negative) return i.sign_bit();
  const int q = step_exponent(i, exponent_of(i.largest));
  return code_of(i, static_cast<u64>(i.largest / power_of_two(q)), q, negative);
}

u32 overflow_code(const FormatInfo& i, const Cast& c, bool negative, bool infinite) {
  if (c.overflow == Overflow::saturate || (c.overflow == Overflow::keep_infinity && !infinite))
    return largest_code(i, negative);
  const u32 sign = negative ? i.sign_bit() : 0;
  if (i.has_infinity) return i.infinity | sign;
  if (i.has_nan) return i.kind == Kind::finite ? i.nan | sign : i.nan;
  return largest_code(i, negative);
}

u32 nan_code(const FormatInfo& i, const Cast& c, bool negative) {
  if (c.nan == Nan::zero || c.nan == Nan::minus_zero) {
    if (i.kind == Kind::scale) return i.nan;
    return c.nan == Nan::minus_zero && i.has_minus_zero ? i.sign_bit() : 0;
  }
  const bool minus = c.nan == Nan::keep_sign && negative;
  if (!i.has_nan) return largest_code(i, minus);
  return minus && (i.kind == Kind::ieee || i.kind == Kind::finite) ? i.nan | i.sign_bit() : i.nan;
}

}  // namespace

double power_of_two(int e) { return std::bit_cast<double>(static_cast<u64>(e + 1023) << 52); }

int exponent_of(double x) { return split(std::bit_cast<u64>(x) & ~(u64{1} << 63)).exponent; }

u32 encode(Format f, double x, const Cast& c, u32 random) {
  CHECK(f != Format::f64 && c.random_bits >= 1 && c.random_bits <= 32, "{}, {} random bits",
        info(f).name, c.random_bits);
  const FormatInfo& i = info(f);
  const u64 bits = std::bit_cast<u64>(x), magnitude = bits & ~(u64{1} << 63);
  const bool negative = bits != magnitude;
  if (magnitude > kInfinity) return nan_code(i, c, negative);
  if (magnitude == kInfinity) return overflow_code(i, c, negative, true);
  const bool flush_in =
      c.subnormals == Subnormal::flush_input || c.subnormals == Subnormal::flush_both;
  const bool flush_out =
      c.subnormals == Subnormal::flush_output || c.subnormals == Subnormal::flush_both;
  if (magnitude == 0) return zero_code(i, c, negative);
  const Parts p = split(magnitude);
  if (flush_in && p.exponent < -126) return zero_code(i, c, negative);
  if (i.kind == Kind::scale && (negative || p.exponent < -i.bias)) return negative ? i.nan : 0;
  if (p.exponent > exponent_of(i.largest) + 1) return overflow_code(i, c, negative, false);

  const int q = step_exponent(i, p.exponent), cut = q - (p.exponent - 52);
  const u64 k = (cut < 64 ? p.m >> cut : 0) + (goes_up(i, p, q, cut, c, random) ? 1 : 0);
  const double value = static_cast<double>(k) * power_of_two(q);
  const double limit = i.kind == Kind::twos && negative ? 2 : i.largest;
  if (value > limit) return overflow_code(i, c, negative, false);
  if (k == 0 || (flush_out && value < i.min_normal)) return zero_code(i, c, negative);
  return code_of(i, k, q, negative);
}

double decode(Format f, u32 code) {
  CHECK(f != Format::f64, "a code of {} has 64 bits", info(f).name);
  const FormatInfo& i = info(f);
  const u32 magnitude = code & i.mask() & ~i.sign_bit();
  const double sign = code & i.sign_bit() ? -1 : 1;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (i.kind == Kind::twos)
    return (static_cast<double>(magnitude) - (sign < 0 ? 128 : 0)) * i.smallest;
  if (i.kind == Kind::sign) return sign * magnitude * i.smallest;
  if (i.has_nan && (code & i.mask()) == i.nan) return kNan;
  if (i.has_infinity && magnitude == i.infinity)
    return sign * std::numeric_limits<double>::infinity();
  if (i.kind == Kind::tapered) return sign * hif8_magnitude(magnitude);
  if (i.kind == Kind::ieee && magnitude > i.infinity) return kNan;
  if (i.kind == Kind::finite && i.has_nan && magnitude == i.nan) return kNan;
  const u32 n = magnitude >> i.unused_bits();
  const int field = static_cast<int>(n >> i.mantissa_bits);
  const u32 fraction = n & ((u32{1} << i.mantissa_bits) - 1);
  const bool leading = field > 0 || i.kind == Kind::scale;
  const int exponent = (i.kind == Kind::scale ? field : std::max(field, 1)) - i.bias;
  const u32 significand = fraction + (leading ? u32{1} << i.mantissa_bits : 0);
  return sign * significand * power_of_two(exponent - i.mantissa_bits);
}

std::vector<double> finite_values(Format f) {
  CHECK(info(f).bits <= 16, "{} has {} bits", info(f).name, info(f).bits);
  std::vector<double> values;
  for (u32 code = 0; code <= info(f).mask(); ++code) {
    const double v = decode(f, code);
    if (std::isfinite(v) && !(v == 0 && std::signbit(v))) values.push_back(v);
  }
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace lathe::numerics
