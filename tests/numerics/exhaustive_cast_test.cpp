// encode() against a search in the sorted table of a format's values, which knows nothing of bits.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <ios>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/format.h"

namespace lathe::numerics {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// Where the next value above the largest would be: half way there, values overflow.
const std::map<Format, double>& beyond() {
  static const std::map<Format, double> table{
      {Format::e4m3, 480},       {Format::e5m2, 65536}, {Format::e4m3fnuz, 256},
      {Format::e5m2fnuz, 65536}, {Format::e2m3, 8},     {Format::e3m2, 32},
      {Format::e2m1, 8},         {Format::mxint8, 2},   {Format::e8m0, 0x1p128},
      {Format::hif8, 49152},     {Format::s1p2, 2},     {Format::e6m2, 57344},
      {Format::bf16, 0x1p128},   {Format::fp16, 65536}};
  return table;
}

/// One sign's codes by magnitude, the last being the one that would follow.
struct Side {
  std::vector<double> magnitudes;
  std::vector<u32> codes;
};

class SlowEncoder {
 public:
  SlowEncoder(Format f, bool away, bool saturate)
      : info_(info(f)), away_(away), saturate_(saturate) {
    for (const bool negative : {false, true}) {
      std::vector<std::pair<double, u32>> all;
      for (u32 c = 0; c <= info_.mask(); ++c) {
        const double v = decode(f, c);
        if (std::isfinite(v) && (negative ? v < 0 : v > 0)) all.emplace_back(std::abs(v), c);
      }
      if (info_.is_signed()) all.emplace_back(0, zero(negative));
      std::sort(all.begin(), all.end());
      if (all.empty()) continue;
      const double next = f == Format::mxint8 && negative ? 2 + 1.0 / 64 : beyond().at(f);
      all.emplace_back(next, all.back().second + 1);
      for (const auto& [v, c] : all) {
        sides_[negative].magnitudes.push_back(v);
        sides_[negative].codes.push_back(c);
      }
    }
  }

  u32 operator()(double x) const {
    if (std::isnan(x)) return info_.has_nan ? info_.nan : last(false);
    const bool negative = std::signbit(x);
    if (!info_.is_signed()) {
      if (x == 0) return saturate_ ? 0 : info_.nan;
      if (negative) return info_.nan;
    }
    const Side& s = sides_[negative];
    const double a = std::abs(x);
    if (a >= s.magnitudes.back()) return overflow(negative);
    const auto above = std::upper_bound(s.magnitudes.begin(), s.magnitudes.end(), a);
    if (above == s.magnitudes.begin()) return s.codes.front();
    const auto hi = static_cast<std::size_t>(above - s.magnitudes.begin()), lo = hi - 1;
    const double middle = (s.magnitudes[lo] + s.magnitudes[hi]) / 2;
    const bool up = a > middle || (a == middle && (away_ || (s.codes[lo] & 1) != 0));
    if (up && hi + 1 == s.magnitudes.size()) return overflow(negative);
    return s.codes[up ? hi : lo];
  }

 private:
  u32 zero(bool negative) const { return negative && info_.has_minus_zero ? info_.sign_bit() : 0; }
  u32 last(bool negative) const {
    return sides_[negative].codes[sides_[negative].codes.size() - 2];
  }
  u32 overflow(bool negative) const {
    if (saturate_ || (!info_.has_infinity && !info_.has_nan)) return last(negative);
    if (info_.has_infinity) return info_.infinity | (negative ? info_.sign_bit() : 0);
    return info_.kind == Kind::finite && negative ? info_.nan | info_.sign_bit() : info_.nan;
  }

  FormatInfo info_;
  bool away_, saturate_;
  Side sides_[2];
};

template <class Visit>
void for_each_cast(Format f, const Visit& visit) {
  for (const bool away : {false, true})
    for (const bool saturate : {false, true}) {
      const Cast c{.tie = away ? Tie::away : Tie::even,
                   .overflow = saturate ? Overflow::saturate : Overflow::nonsaturate};
      visit(c, SlowEncoder(f, away, saturate));
    }
}

void expect_same(Format f, const Cast& c, const SlowEncoder& slow, double x) {
  const u32 got = encode(f, x, c), want = slow(x);
  if (got != want) {  // a failure for each of millions of values would take minutes
    ADD_FAILURE() << info(f).name << (c.tie == Tie::away ? " away" : " even")
                  << (c.overflow == Overflow::saturate ? " saturate " : " nonsaturate ")
                  << std::hexfloat << x << ": " << std::hex << got << ", not " << want;
  }
}

TEST(ExhaustiveCast, EveryBf16AndFp16ValueGoesToTheNearestCodeOfEveryNarrowFormat) {
  std::vector<double> inputs;
  for (u32 c = 0; c < 0x10000; ++c) {
    inputs.push_back(decode(Format::bf16, c));
    inputs.push_back(decode(Format::fp16, c));
  }
  for (const FormatInfo& i : kFormats) {
    if (i.bits > 8) continue;
    for_each_cast(i.format, [&](const Cast& c, const SlowEncoder& slow) {
      for (const double x : inputs) expect_same(i.format, c, slow, x);
    });
  }
}

TEST(ExhaustiveCast, TheMidpointOfEveryNeighbourPairAndOneUlpBesideIt) {
  for (const FormatInfo& i : kFormats) {
    if (i.bits > 16) continue;
    std::vector<double> values = finite_values(i.format);
    values.push_back(beyond().at(i.format));
    if (i.is_signed()) values.insert(values.begin(), -values.back());
    for_each_cast(i.format, [&](const Cast& c, const SlowEncoder& slow) {
      for (std::size_t n = 1; n < values.size(); ++n) {
        const double middle = (values[n - 1] + values[n]) / 2;
        const auto single = static_cast<float>(middle);
        const bool in_float = static_cast<double>(single) == middle;
        for (const double x : {middle, std::nextafter(middle, -kInf), std::nextafter(middle, kInf)})
          expect_same(i.format, c, slow, x);
        if (!in_float) continue;
        expect_same(i.format, c, slow, std::nextafterf(single, -HUGE_VALF));
        expect_same(i.format, c, slow, std::nextafterf(single, HUGE_VALF));
      }
    });
  }
}

TEST(ExhaustiveCast, PowersOfTwoFromTheSmallestDoubleToTheLargest) {
  for (const FormatInfo& i : kFormats) {
    if (i.bits > 16) continue;
    for_each_cast(i.format, [&](const Cast& c, const SlowEncoder& slow) {
      for (int e = -1074; e < 1024; ++e)
        for (const double m : {1.0, -1.0, 1 + 0x1p-52, 1.5, -1.75, 2 - 0x1p-52})
          expect_same(i.format, c, slow, std::ldexp(m, e));
      for (const double x : {0.0, -0.0, kInf, -kInf, double{HUGE_VALF}, 0x1.fffffep127,
                             std::numeric_limits<double>::max(), -5e-324})
        expect_same(i.format, c, slow, x);
    });
  }
}

/// A double with random bits, its exponent in [lowest, lowest + span).
double draw(const Rng& rng, u64 index, int lowest, u32 span) {
  const auto b = rng.bits(index);
  const double m = 1 + static_cast<double>(u64{b[0]} << 20 | b[1] >> 12) * 0x1p-52;
  return std::ldexp((b[3] & 1) != 0 ? -m : m, lowest + static_cast<int>(b[2] % span));
}

TEST(ExhaustiveCast, Fp32IsWhatTheProcessorConvertsTo) {
  const Rng rng{7};
  const Cast open{.overflow = Overflow::nonsaturate};
  for (u64 n = 0; n < 200'000; ++n) {
    const double x = draw(rng, n, -155, 290);
    ASSERT_EQ(encode(Format::f32, x, open), std::bit_cast<u32>(static_cast<float>(x))) << x;
  }
}

TEST(ExhaustiveCast, Tf32AndBf16OfAFloatAreTheKnownIntegerTricks) {
  const Rng rng{8};
  const Cast open{.overflow = Overflow::nonsaturate};
  for (u64 n = 0; n < 200'000; ++n) {
    const auto x = static_cast<float>(draw(rng, n, -150, 278));
    const u32 u = std::bit_cast<u32>(x);
    ASSERT_EQ(encode(Format::bf16, x, open), (u + 0x7fff + (u >> 16 & 1)) >> 16) << x;
    ASSERT_EQ(encode(Format::tf32, x, open), (u + 0xfff + (u >> 13 & 1)) & ~u32{0x1fff}) << x;
  }
}

}  // namespace
}  // namespace lathe::numerics
