#include "lathe/kernels/lanes.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "lathe/base/view.h"

namespace lathe::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

TEST(Lanes, FoldInHalves) {
  // Lane 0 meets 8, then 4, then 2, then 1. Each group below is swallowed by 2^24 unless it is
  // summed before it meets it.
  Plain<float> x = Plain<float>::broadcast(0);
  x.v[0] = 0x1p24F;
  x.v[8] = 1;  // met alone: lost
  EXPECT_EQ(x.sum(), 0x1p24F);
  x.v[8] = 0;
  x.v[4] = 1, x.v[12] = 1;  // 4 and 12 meet first: kept
  EXPECT_EQ(x.sum(), 0x1p24F + 2);
  x.v[4] = 1, x.v[12] = 0, x.v[2] = 1;  // 4 and 2 do not meet before lane 0: both lost
  EXPECT_EQ(x.sum(), 0x1p24F);
  x.v[4] = 0, x.v[2] = 1, x.v[6] = 1;  // 6 joins 2
  EXPECT_EQ(x.sum(), 0x1p24F + 2);
}

TEST(Lanes, ReadAndWriteNoMoreThanAsked) {
  for (i64 n = 0; n <= kLanes; ++n) {
    std::vector<float> from(static_cast<std::size_t>(n), 3), to(static_cast<std::size_t>(n));
    const auto x = Plain<float>::load(from.data(), n);
    for (i64 i = 0; i < kLanes; ++i) EXPECT_EQ(x.v[i], i < n ? 3 : 0);
    x.store(to.data(), n);
    EXPECT_EQ(to, from);
  }
}

TEST(Lanes, MinAndMaxGiveTheirSecondForNaN) {
  const auto nan = Plain<float>::broadcast(kNaN), one = Plain<float>::broadcast(1);
  EXPECT_EQ(max(nan, one).v[0], 1);
  EXPECT_EQ(min(nan, one).v[0], 1);
  EXPECT_NE(max(one, nan).v[0], max(one, nan).v[0]);
  EXPECT_NE(min(one, nan).v[0], min(one, nan).v[0]);
  EXPECT_FALSE((nan == nan).on[0]);
  EXPECT_TRUE((nan != nan).on[0]);
  EXPECT_FALSE((nan >= one).on[0] || (nan < one).on[0]);
}

TEST(Lanes, BitsAreThoseOfFloatsAndWrap) {
  using B = PlainBits;
  const auto x = Plain<float>::broadcast(-1.5F);
  EXPECT_EQ(bits(x).v[7], 0xbfc00000u);
  EXPECT_EQ(Plain<float>::from(bits(x)).v[15], -1.5F);
  EXPECT_EQ(Plain<float>::number(B::index()).v[11], 11);
  const B high = B::broadcast(0xfffffff0u), five = B::broadcast(5);
  EXPECT_EQ((high + B::broadcast(17)).v[3], 1u);
  EXPECT_EQ((five - B::broadcast(6)).v[3], 0xffffffffu);
  EXPECT_EQ(max(high, five).v[0], 0xfffffff0u);
  EXPECT_EQ(min(high, five).v[0], 5u);
  EXPECT_EQ(B::index().hmax(), 15u);
  const u64 product = u64{0xfffffff0u} * 0x12345678u;
  EXPECT_EQ(mul_even(high, 0x12345678u).v[4], static_cast<u32>(product));
  EXPECT_EQ(upper_half(mul_even(high, 0x12345678u)).v[4], static_cast<u32>(product >> 32));
  EXPECT_EQ(pairs(B::index(), five + B::index()).v[6], 6u);
  EXPECT_EQ(pairs(B::index(), five + B::index()).v[7], 5u + 6);
  EXPECT_EQ(whole(Plain<float>::broadcast(65535.99F)).v[0], 65535u);
  EXPECT_EQ(high.shr(4).v[0], 0x0fffffffu);
  EXPECT_EQ(five.shl(4).v[0], 80u);
}

TEST(Lanes, ChangePlacesAndLoseTheirLowerHalves) {
  const auto x = Plain<float>::number(PlainBits::index());
  for (i64 i = 0; i < kLanes; ++i) {
    EXPECT_EQ(Plain<float>::exchange<1>(x).v[i], static_cast<float>(i ^ 1));
    EXPECT_EQ(Plain<float>::exchange<8>(x).v[i], static_cast<float>(i ^ 8));
  }
  const auto y = x + Plain<float>::broadcast(100);
  for (i64 i = 0; i < kLanes; ++i) {
    const bool set = (i & 4) != 0;
    EXPECT_EQ(Plain<float>::low_lanes<4>(x, y).v[i], static_cast<float>(set ? 100 + (i ^ 4) : i));
    EXPECT_EQ(Plain<float>::high_lanes<4>(x, y).v[i], static_cast<float>(set ? 100 + i : i ^ 4));
  }
  bf16 to[kLanes] = {};
  Plain<float>::from(PlainBits::broadcast(0x3f80ffff)).store_upper(to, 3);
  EXPECT_EQ(to[2].bits, 0x3f80);
  EXPECT_EQ(to[3].bits, 0);
}

// The nearest of all 65536 codes, ties to the even one, found without rounding anything.
TEST(Lanes, Bf16RoundsToNearestEven) {
  for (u32 code = 0; code < 0x7f80; ++code) {
    const u32 low = code << 16;
    const auto round = [](u32 bits) { return to_bf16(std::bit_cast<float>(bits)).bits; };
    EXPECT_EQ(round(low), code);
    EXPECT_EQ(round(low + 1), code);
    EXPECT_EQ(round(low + 0x7fff), code);
    EXPECT_EQ(round(low + 0x8000), code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(round(low + 0x8001), code + 1);
    EXPECT_EQ(round(low + 0xffff), code + 1);
    EXPECT_EQ(round(0x80000000u | (low + 0x8000)), 0x8000 | (code % 2 == 0 ? code : code + 1));
  }
}

TEST(Lanes, Bf16KeepsNaNInfinityAndTheSignOfZero) {
  for (u32 mantissa = 1; mantissa < 0x800000; mantissa += 4099)
    for (const u32 sign : {0u, 0x80000000u}) {
      const bf16 h = to_bf16(std::bit_cast<float>(sign | 0x7f800000u | mantissa));
      EXPECT_NE(to_float(h), to_float(h)) << mantissa;
    }
  EXPECT_EQ(to_float(to_bf16(kInf)), kInf);
  EXPECT_EQ(to_float(to_bf16(-kInf)), -kInf);
  EXPECT_EQ(to_bf16(-0.0F).bits, 0x8000);
  EXPECT_EQ(to_float(to_bf16(std::numeric_limits<float>::max())), kInf);
}

TEST(Lanes, DoubleToBf16RoundsOnce) {
  // Just above, at and just below a tie of bf16, by less than a float can tell.
  for (const double at : {1 + 0x1p-8, 1 + 3 * 0x1p-8, -(1 + 0x1p-8), 0x1p-100 * (1 + 0x1p-8)})
    for (const double off : {0.0, 0x1p-40, -0x1p-40}) {
      const double x = at * (1 + off);
      const double size = std::fabs(x) / (std::fabs(at) > 0.5 ? 1 : 0x1p-100);
      const double ulps = (size - 1) * 0x1p7;  // a half, or one and a half, and a little
      double want = std::floor(ulps);
      if (ulps - want > 0.5 || (ulps - want == 0.5 && std::fmod(want, 2) == 1)) want += 1;
      const double got = std::fabs(to_float(to_bf16(x))) / (std::fabs(at) > 0.5 ? 1 : 0x1p-100);
      EXPECT_EQ((got - 1) * 0x1p7, want) << at << " " << off;
    }
  EXPECT_EQ(to_float(to_bf16(1e300)), kInf);
  EXPECT_EQ(to_float(to_bf16(-1e300)), -kInf);
  EXPECT_NE(to_float(to_bf16(std::nan(""))), to_float(to_bf16(std::nan(""))));
}

}  // namespace
}  // namespace lathe::kernels
