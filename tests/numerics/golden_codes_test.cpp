// Codes and values that pin each encoding, by hand from the formats' definitions.

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/format.h"

namespace lathe::numerics {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Pair {
  u32 code;
  double value;
};

void expect_pairs(Format f, const std::vector<Pair>& pairs) {
  for (const Pair& p : pairs) {
    const double v = decode(f, p.code);
    if (std::isnan(p.value)) {
      EXPECT_TRUE(std::isnan(v)) << info(f).name << " " << p.code << " is " << v;
      continue;
    }
    EXPECT_EQ(v, p.value) << info(f).name << " " << p.code;
    EXPECT_EQ(std::signbit(v), std::signbit(p.value)) << info(f).name << " " << p.code;
    EXPECT_EQ(encode(f, p.value, {.overflow = Overflow::nonsaturate}), p.code)
        << info(f).name << " " << p.value;
  }
}

void expect_codes(Format f, const Cast& c, const std::vector<Pair>& pairs) {
  for (const Pair& p : pairs)
    EXPECT_EQ(encode(f, p.value, c), p.code) << info(f).name << " of " << p.value;
}

TEST(GoldenCodes, OfE4m3) {
  expect_pairs(Format::e4m3, {{0x00, 0},
                              {0x01, 0x1p-9},
                              {0x07, 7 * 0x1p-9},
                              {0x08, 0x1p-6},
                              {0x09, 0x1.2p-6},
                              {0x38, 1},
                              {0x39, 1.125},
                              {0x40, 2},
                              {0x58, 16},
                              {0x59, 18},
                              {0x78, 256},
                              {0x7d, 416},
                              {0x7e, 448},
                              {0x80, -0.0},
                              {0xb8, -1},
                              {0xfe, -448},
                              {0x7f, kNan},
                              {0xff, kNan}});
}

TEST(GoldenCodes, OfE5m2AndItIsTheUpperHalfOfAnFp16) {
  expect_pairs(Format::e5m2, {{0x01, 0x1p-16},
                              {0x03, 3 * 0x1p-16},
                              {0x04, 0x1p-14},
                              {0x3c, 1},
                              {0x3d, 1.25},
                              {0x40, 2},
                              {0x7b, 57344},
                              {0x7c, kInf},
                              {0x7d, kNan},
                              {0x7e, kNan},
                              {0x7f, kNan},
                              {0xbc, -1},
                              {0xfb, -57344},
                              {0xfc, -kInf}});
  for (u32 c = 0; c < 256; ++c) {
    const double narrow = decode(Format::e5m2, c), wide = decode(Format::fp16, c << 8);
    EXPECT_TRUE(narrow == wide || (std::isnan(narrow) && std::isnan(wide))) << c;
  }
}

TEST(GoldenCodes, OfTheFourAndSixBitFormats) {
  expect_pairs(Format::e2m1, {{0, 0}, {1, .5}, {2, 1}, {3, 1.5}, {4, 2}, {5, 3}, {6, 4}, {7, 6}});
  expect_pairs(Format::e2m1, {{8, -0.0}, {9, -.5}, {15, -6}});
  expect_pairs(Format::e2m3, {{0x01, .125},
                              {0x07, .875},
                              {0x08, 1},
                              {0x10, 2},
                              {0x18, 4},
                              {0x1f, 7.5},
                              {0x20, -0.0},
                              {0x3f, -7.5}});
  expect_pairs(Format::e3m2, {{0x01, .0625},
                              {0x03, .1875},
                              {0x04, .25},
                              {0x0c, 1},
                              {0x1f, 28},
                              {0x20, -0.0},
                              {0x3f, -28}});
  expect_pairs(Format::s1p2, {{0, 0}, {1, .25}, {7, 1.75}, {8, -0.0}, {15, -1.75}});
}

TEST(GoldenCodes, OfMxint8AndTheScales) {
  expect_pairs(Format::mxint8, {{0x40, 1},
                                {0x7f, 1.984375},
                                {0x81, -1.984375},
                                {0x80, -2},
                                {0xff, -1.0 / 64},
                                {0x01, 1.0 / 64},
                                {0x00, 0}});
  expect_pairs(
      Format::e8m0,
      {{0x00, 0x1p-127}, {0x01, 0x1p-126}, {0x7f, 1}, {0x80, 2}, {0xfe, 0x1p127}, {0xff, kNan}});
  expect_pairs(Format::e6m2, {{0x00, 0x1p-48}, {0xc0, 1}, {0xfe, 0x1.8p15}, {0xff, kNan}});
}

TEST(GoldenCodes, OfTheWideFormats) {
  expect_pairs(Format::bf16, {{0x3f80, 1},
                              {0x3f81, 1.0078125},
                              {0x0001, 0x1p-133},
                              {0x007f, 127 * 0x1p-133},
                              {0x0080, 0x1p-126},
                              {0x7f7f, 0x1.fep127},
                              {0x7f80, kInf},
                              {0xff80, -kInf}});
  expect_pairs(Format::fp16, {{0x3c00, 1},
                              {0x0001, 0x1p-24},
                              {0x0400, 0x1p-14},
                              {0x7bff, 65504},
                              {0x7c00, kInf},
                              {0xfc00, -kInf}});
  expect_pairs(Format::f32, {{0x7f7fffff, 0x1.fffffep127},
                             {0x00000001, 0x1p-149},
                             {0x00800000, 0x1p-126},
                             {0x7f800000, kInf}});
  expect_pairs(Format::tf32, {{0x3f800000, 1},
                              {0x3f802000, 1 + 0x1p-10},
                              {0x00002000, 0x1p-136},
                              {0x7f7fe000, 0x1.ffcp127},
                              {0xff800000, -kInf}});
  EXPECT_EQ(decode(Format::tf32, 0x3f803fff), 1 + 0x1p-10) << "the low bits are cut";
}

TEST(GoldenCodes, OfTheFnuzFormats) {
  expect_pairs(Format::e4m3fnuz, {{0x00, 0},
                                  {0x01, 0x1p-10},
                                  {0x08, 0x1p-7},
                                  {0x40, 1},
                                  {0x7f, 240},
                                  {0xff, -240},
                                  {0x80, kNan}});
  expect_pairs(Format::e5m2fnuz,
               {{0x01, 0x1p-17}, {0x04, 0x1p-15}, {0x40, 1}, {0x7f, 57344}, {0x80, kNan}});
  EXPECT_EQ(encode(Format::e4m3fnuz, -0.0, {}), 0u);
  EXPECT_EQ(encode(Format::e4m3fnuz, -0x1p-12, {}), 0u) << "0x80 would be NaN";
}

TEST(GoldenCodes, OfHif8) {
  expect_pairs(
      Format::hif8,
      {{0x01, 0x1p-22}, {0x02, 0x1p-21},   {0x07, 0x1p-16},  {0x08, 1},         {0x09, 1.125},
       {0x0f, 1.875},   {0x10, 2},         {0x17, 3.75},     {0x18, .5},        {0x1f, .9375},
       {0x20, 4},       {0x27, 7.5},       {0x28, 8},        {0x2f, 15},        {0x30, .25},
       {0x37, .46875},  {0x38, .125},      {0x3f, .234375},  {0x40, 16},        {0x43, 28},
       {0x4c, 128},     {0x4f, 224},       {0x50, .0625},    {0x5c, 1.0 / 128}, {0x5f, 7.0 / 512},
       {0x60, 256},     {0x61, 384},       {0x6e, 32768},    {0x70, 1.0 / 256}, {0x71, 3.0 / 512},
       {0x7e, 0x1p-15}, {0x7f, 0x1.8p-15}, {0x81, -0x1p-22}, {0x88, -1},        {0xee, -32768},
       {0x6f, kInf},    {0xef, -kInf},     {0x80, kNan},     {0x00, 0}});
  const Cast ta = usual_cast(Format::hif8);
  const Cast open{.tie = Tie::away, .overflow = Overflow::nonsaturate};
  const double below_40960 = std::nextafter(40960.0, 0);
  expect_codes(Format::hif8, ta,
               {{0x00, std::nextafter(0x1p-23, 0)},
                {0x01, 0x1p-23},
                {0x01, 0x1.fp-23},
                {0x00, -0.0},
                {0x6e, below_40960},
                {0x6e, 40960},
                {0x6e, 49152},
                {0x6e, 1e30},
                {0x80, kNan}});
  expect_codes(Format::hif8, open, {{0x6e, below_40960}, {0x6f, 40960}, {0xef, -49152}});
  EXPECT_EQ(encode(Format::hif8, kNan, {.nan = Nan::zero}), 0u);
}

TEST(GoldenCodes, TheHif8CodesAscendAsThePaperLists) {
  std::vector<u32> order;
  const auto add = [&](u32 first, u32 last) {
    for (u32 c = first; c <= last; ++c) order.push_back(c);
  };
  add(0x01, 0x07);
  for (u32 c = 0x7e; c >= 0x70; c -= 2) add(c, c + 1);
  for (u32 c = 0x5c; c >= 0x50; c -= 4) add(c, c + 3);
  add(0x38, 0x3f), add(0x30, 0x37), add(0x18, 0x1f), add(0x08, 0x0f), add(0x10, 0x17);
  add(0x20, 0x2f), add(0x40, 0x4f), add(0x60, 0x6e);
  ASSERT_EQ(order.size(), 126u);
  for (std::size_t i = 1; i < order.size(); ++i)
    EXPECT_LT(decode(Format::hif8, order[i - 1]), decode(Format::hif8, order[i])) << order[i];
}

TEST(GoldenCodes, OfRoundingToE4m3AndE5m2) {
  const double up = std::nextafter(0x1p-10, 1.0);
  expect_codes(Format::e4m3, {},
               {{0x38, 1},
                {0x80, -0.0},
                {0x7e, 448},
                {0x7e, 464},
                {0x7e, 1e9},
                {0x01, 0x1p-9},
                {0x00, 0x1p-10},
                {0x01, up},
                {0x02, 0x1.8p-9},
                {0x08, 0x1p-6},
                {0x08, 0.0146484375},
                {0x58, 17},
                {0x59, 18},
                {0x5a, 19},
                {0x48, 4.25},
                {0x7e, kInf},
                {0xfe, -kInf}});
  const Cast open{.overflow = Overflow::nonsaturate};
  expect_codes(Format::e4m3, open,
               {{0x7e, 464},
                {0x7f, std::nextafter(464.0, 500)},
                {0x7f, kInf},
                {0xff, -1e9},
                {0x7f, kNan},
                {0x7f, -kNan}});
  expect_codes(Format::e5m2, {},
               {{0x3c, 1},
                {0x3c, 1.125},
                {0x7b, 61439},
                {0x7b, 61440},
                {0x01, 0x1p-16},
                {0x00, 0x1p-17},
                {0x02, 0x1.8p-16}});
  expect_codes(Format::e5m2, open, {{0x7b, 61439}, {0x7c, 61440}, {0xfc, -kInf}});
  expect_codes(Format::e5m2, {.overflow = Overflow::keep_infinity}, {{0x7b, 1e9}, {0x7c, kInf}});
}

TEST(GoldenCodes, OfRoundingToE2m1AtItsSevenMidpoints) {
  struct Midpoint {
    double at;
    u32 below, tie, above;
  };
  for (const Midpoint& m : {Midpoint{.25, 0, 0, 1},
                            {.75, 1, 2, 2},
                            {1.25, 2, 2, 3},
                            {1.75, 3, 4, 4},
                            {2.5, 4, 4, 5},
                            {3.5, 5, 6, 6},
                            {5, 6, 6, 7}})
    for (const double s : {1.0, -1.0}) {
      const u32 sign = s < 0 ? 8 : 0;
      const float at = static_cast<float>(m.at);
      expect_codes(Format::e2m1, {},
                   {{sign | m.tie, s * m.at},
                    {sign | m.below, s * std::nextafterf(at, 0)},
                    {sign | m.above, s * std::nextafterf(at, 9)}});
    }
  expect_codes(Format::e2m1, {.overflow = Overflow::nonsaturate}, {{7, 1e9}, {15, -kInf}});
}

TEST(GoldenCodes, ValuesThatTwoRoundingsGetWrong) {
  struct Case {
    double x;
    u32 direct, twice;
  };
  for (const Case& c : {Case{0x1.10041800p+4, 0x59, 0x58}, Case{0x1.2ff0p+4, 0x59, 0x5a},
                        Case{0x1.1080p+0, 0x39, 0x38}, Case{0x1.008p-10, 0x01, 0x00}}) {
    EXPECT_EQ(encode(Format::e4m3, c.x, {}), c.direct) << c.x;
    const double narrow = decode(Format::bf16, encode(Format::bf16, c.x, {}));
    EXPECT_EQ(encode(Format::e4m3, narrow, {}), c.twice) << c.x << " by way of BF16";
  }
  EXPECT_EQ(encode(Format::e4m3, 17 + 0x1p-30, {}), 0x59u) << "FP32 would lose the 2^-30";
  EXPECT_EQ(encode(Format::e4m3, 17 - 0x1p-30, {}), 0x58u);
  EXPECT_EQ(encode(Format::bf16, 1 + 0x1p-8 + 0x1p-50, {}), 0x3f81u);
}

TEST(GoldenCodes, EachAxisOfACastIsItsOwn) {
  using enum Format;
  expect_codes(e4m3, {.tie = Tie::away}, {{0x59, 17}, {0x01, 0x1p-10}, {0x7e, 464}});
  expect_codes(e4m3, {.nan = Nan::keep_sign}, {{0x7f, kNan}, {0xff, -kNan}});
  expect_codes(e4m3, {.nan = Nan::zero}, {{0x00, kNan}, {0x00, -kNan}});
  expect_codes(e2m1, {.nan = Nan::minus_zero}, {{0x8, kNan}});
  expect_codes(e2m1, {}, {{0x7, kNan}});
  expect_codes(e2m1, {.nan = Nan::keep_sign}, {{0xf, -kNan}});
  expect_codes(e4m3, {.minus_zero = MinusZero::drop}, {{0x00, -0.0}, {0x00, -0x1p-11}, {0xb8, -1}});
  const Cast ftz{.subnormals = Subnormal::flush_output}, daz{.subnormals = Subnormal::flush_input};
  expect_codes(e4m3, ftz, {{0x00, 0x1.cp-7}, {0x80, -0x1.cp-7}, {0x08, 0x1.fp-7}, {0x08, 0x1p-6}});
  expect_codes(e4m3, daz, {{0x07, 7 * 0x1p-9}});
  expect_codes(bf16, daz, {{0x0000, 0x1.8p-127}, {0x8000, -0x1p-130}, {0x0080, 0x1p-126}});
  expect_codes(bf16, ftz, {{0x0000, 0x1.8p-127}, {0x0080, 0x1.fffp-127}});
  expect_codes(hif8, ftz, {{0x00, 0x1p-16}, {0x7e, 0x1p-15}});
  expect_codes(e8m0, {}, {{0x00, 0}, {0x00, 1e-300}, {0xff, -1}, {0xfe, kInf}, {0x80, 1.5}});
  expect_codes(e8m0, {.overflow = Overflow::nonsaturate}, {{0xff, 0}, {0xff, kInf}, {0xff, -kInf}});
  expect_codes(mxint8, {}, {{0x7f, 1e9}, {0x80, -1e9}, {0x80, -1.9922}, {0x7f, kNan}});
}

TEST(GoldenCodes, EveryCodeComesBack) {
  for (const FormatInfo& i : kFormats) {
    if (i.bits > 16) continue;
    for (u32 c = 0; c <= i.mask(); ++c) {
      const double v = decode(i.format, c);
      for (const Tie tie : {Tie::even, Tie::away, Tie::stochastic}) {
        const Cast cast{.tie = tie, .overflow = Overflow::nonsaturate};
        EXPECT_EQ(encode(i.format, v, cast, ~u32{0}), std::isnan(v) ? i.nan : c) << i.name;
      }
    }
  }
}

}  // namespace
}  // namespace lathe::numerics
