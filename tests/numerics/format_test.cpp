#include "lathe/numerics/format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/numerics/cast.h"

namespace lathe::numerics {
namespace {

std::vector<FormatInfo> enumerable() {
  std::vector<FormatInfo> out;
  for (const FormatInfo& i : kFormats)
    if (i.bits <= 16) out.push_back(i);
  return out;
}

/// Bits between the highest and the lowest that is set.
int significand_bits(double x) {
  if (x == 0) return 0;
  const u64 m = (std::bit_cast<u64>(x) & ((u64{1} << 52) - 1)) | (u64{1} << 52);
  return 53 - std::countr_zero(m);
}

TEST(Format, WhatTheTableSaysIsWhatTheCodesHold) {
  for (const FormatInfo& i : enumerable()) {
    const std::vector<double> values = finite_values(i.format);
    double smallest = i.largest;
    int bits = 0;
    for (const double v : values) {
      if (v > 0) smallest = std::min(smallest, v);
      // -2 of MXINT8 is below -largest; it needs one bit.
      if (v != -2 || i.kind != Kind::twos) {
        EXPECT_LE(std::abs(v), i.largest) << i.name;
      }
      bits = std::max(bits, significand_bits(v));
    }
    EXPECT_EQ(values.back(), i.largest) << i.name;
    EXPECT_EQ(smallest, i.smallest) << i.name;
    EXPECT_EQ(bits, i.significand_bits) << i.name;
    bool infinity = false, nan = false, minus_zero = false;
    for (u32 c = 0; c <= i.mask(); ++c) {
      const double v = decode(i.format, c);
      infinity |= std::isinf(v);
      nan |= std::isnan(v);
      minus_zero |= v == 0 && std::signbit(v);
    }
    EXPECT_EQ(infinity, i.has_infinity) << i.name;
    EXPECT_EQ(nan, i.has_nan) << i.name;
    EXPECT_EQ(minus_zero, i.has_minus_zero) << i.name;
    if (i.has_nan) {
      EXPECT_TRUE(std::isnan(decode(i.format, i.nan))) << i.name;
    }
    if (i.has_infinity) {
      EXPECT_EQ(decode(i.format, i.infinity), HUGE_VAL) << i.name;
    }
  }
}

TEST(Format, TheCountsOfDistinctValuesAreThePublishedOnes) {
  EXPECT_EQ(finite_values(Format::e4m3).size(), 253u);
  EXPECT_EQ(finite_values(Format::e5m2).size(), 247u);
  EXPECT_EQ(finite_values(Format::e4m3fnuz).size(), 255u);
  EXPECT_EQ(finite_values(Format::e5m2fnuz).size(), 255u);
  EXPECT_EQ(finite_values(Format::e2m3).size(), 63u);
  EXPECT_EQ(finite_values(Format::e3m2).size(), 63u);
  EXPECT_EQ(finite_values(Format::e2m1).size(), 15u);
  EXPECT_EQ(finite_values(Format::mxint8).size(), 256u);
  EXPECT_EQ(finite_values(Format::e8m0).size(), 255u);
  EXPECT_EQ(finite_values(Format::hif8).size(), 253u);
  EXPECT_EQ(finite_values(Format::s1p2).size(), 15u);
  EXPECT_EQ(finite_values(Format::e6m2).size(), 255u);
}

TEST(Format, NormalValuesHaveTheFullMantissaAndBelowThemTheStepIsConstant) {
  for (const FormatInfo& i : enumerable()) {
    if (i.kind != Kind::ieee && i.kind != Kind::finite && i.kind != Kind::fnuz) continue;
    EXPECT_EQ(i.min_normal, i.smallest * static_cast<double>(1 << i.mantissa_bits)) << i.name;
    for (int k = 1; k <= 2 << i.mantissa_bits; ++k)
      EXPECT_EQ(decode(i.format, static_cast<u32>(k)), k * i.smallest) << i.name;
  }
}

/// The largest and smallest products of a value with powers of two and E4M3 or HiF4 scales are
/// exact in BF16, which is why products in these formats can run on BF16 hardware.
TEST(Format, EveryValueOfEightBitsOrLessIsExactInBf16) {
  for (const FormatInfo& i : enumerable()) {
    if (i.bits > 8) continue;
    for (const double v : finite_values(i.format))
      EXPECT_EQ(decode(Format::bf16, encode(Format::bf16, v, {})), v) << i.name;
    EXPECT_EQ(i.storage, DType::bf16);
  }
  std::set<double> nvfp4, hif4;
  for (const double s : finite_values(Format::e4m3))
    for (const double q : finite_values(Format::e2m1))
      if (s >= 0) nvfp4.insert(s * q);
  EXPECT_EQ(nvfp4.size(), 475u);
  for (const double base : finite_values(Format::e6m2))
    for (const double q : finite_values(Format::s1p2))
      for (const double flags : {1.0, 2.0, 4.0}) hif4.insert(base * flags * q);
  EXPECT_EQ(hif4.size(), 1341u);
  for (const std::set<double>& all : {nvfp4, hif4})
    for (const double v : all) {
      EXPECT_LE(significand_bits(v), 6);
      EXPECT_EQ(decode(Format::bf16, encode(Format::bf16, v, {})), v);
    }
}

TEST(Format, AnUnknownNameSuggestsTheNearest) {
  EXPECT_EQ(format("e4m3"), Format::e4m3);
  EXPECT_EQ(format("hif4"), Format::s1p2);
  EXPECT_EQ(format("fp32"), Format::f32);
  EXPECT_THROW(format("fp64"), Error);
  try {
    format("e4m2");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), "there is no format \"e4m2\"");
    EXPECT_NE(e.hint().find("did you mean \"e4m3\"?"), std::string::npos) << e.hint();
  }
}

}  // namespace
}  // namespace lathe::numerics
