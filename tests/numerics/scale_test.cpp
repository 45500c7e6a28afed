#include "lathe/numerics/scale.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/format.h"

namespace lathe::numerics {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

struct Golden {
  Format element;
  float amax;
  int floor, even, ceil, round_up;
};

TEST(MxScale, TheFourRulesOnTheValuesWhereTheyDiffer) {
  const float over = std::nextafterf(448, 500), six = std::nextafterf(6, 7);
  using enum Format;
  for (const Golden& g : {Golden{e4m3, 1, 119, 119, 119, 119},
                          {e4m3, 1.75, 119, 119, 120, 119},
                          {e4m3, 1.76F, 119, 119, 120, 120},
                          {e4m3, 448, 127, 127, 128, 127},
                          {e4m3, over, 127, 127, 128, 128},
                          {e4m3, 500, 127, 128, 128, 128},
                          {e4m3, 957, 128, 128, 129, 129},
                          {e4m3, 1000, 128, 129, 129, 129},
                          {e4m3, 0x1p-126F, 0, 0, 0, 0},
                          {e4m3, kMax, 246, 247, 247, 247},
                          {e2m1, 1, 125, 125, 125, 125},
                          {e2m1, 1.5, 125, 125, 126, 125},
                          {e2m1, 1.6F, 125, 125, 126, 126},
                          {e2m1, 3.9F, 126, 127, 127, 127},
                          {e2m1, 6, 127, 127, 128, 127},
                          {e2m1, six, 127, 127, 128, 128},
                          {e2m1, 7, 127, 128, 128, 128},
                          {e2m1, 8, 128, 128, 128, 128},
                          {e2m1, 0, 0, 0, 0, 0},
                          {e5m2, 1, 112, 112, 112, 112},
                          {e5m2, 1.76F, 112, 112, 113, 113},
                          {e5m2, 57344, 127, 127, 128, 127},
                          {e5m2, 57345, 127, 127, 128, 128},
                          {e5m2, 65504, 127, 128, 128, 128},
                          {mxint8, 1, 127, 127, 127, 127},
                          {mxint8, 1.99F, 127, 127, 128, 128},
                          {mxint8, 2, 128, 128, 128, 128}}) {
    EXPECT_EQ(mx_scale(MxRule::floor, g.element, g.amax), g.floor) << g.amax;
    EXPECT_EQ(mx_scale(MxRule::even, g.element, g.amax), g.even) << g.amax;
    EXPECT_EQ(mx_scale(MxRule::ceil, g.element, g.amax), g.ceil) << g.amax;
    EXPECT_EQ(mx_scale(MxRule::round_up, g.element, g.amax), g.round_up) << g.amax;
  }
}

/// Where no logarithm by a library is needed, none can be off by one.
TEST(MxScale, RoundUpTurnsAtEveryBinadesLargestElementAndOneUlpBesideIt) {
  using enum Format;
  for (const Format f : {e4m3, e5m2, e2m3, e3m2, e2m1}) {
    const int emax = exponent_of(info(f).largest);
    for (int e = -100; e <= 127 - emax; ++e) {
      const auto at = static_cast<float>(std::ldexp(info(f).largest, e));
      EXPECT_EQ(mx_scale(MxRule::round_up, f, at), 127 + e) << info(f).name << " " << at;
      EXPECT_EQ(mx_scale(MxRule::round_up, f, std::nextafterf(at, 0)), 127 + e);
      const float above = std::nextafterf(at, kInf);
      if (std::isfinite(above)) {
        EXPECT_EQ(mx_scale(MxRule::round_up, f, above), 128 + e) << info(f).name;
      }
      EXPECT_EQ(mx_scale(MxRule::floor, f, static_cast<float>(std::ldexp(1.0, e + emax))), 127 + e);
    }
  }
}

TEST(MxScale, CeilIsTheSmallestPowerThatCoversTheAmaxDownToTheSubnormals) {
  for (const float a : {1e-45F, 0x1p-130F, 0x1p-127F, 0x1.8p-127F, 0x1p-126F, 0x1.4p-3F, kMax}) {
    const int code = mx_scale(MxRule::ceil, Format::mxint8, a);
    EXPECT_TRUE(a <= decode(Format::e8m0, static_cast<u32>(code)) || code == 254) << a;
    if (code > 0) {
      EXPECT_GT(a, decode(Format::e8m0, static_cast<u32>(code - 1))) << a;
    }
  }
}

TEST(MxScale, AnInfiniteOrNanAmaxFollowsThePolicy) {
  for (const MxRule r : {MxRule::floor, MxRule::ceil, MxRule::even, MxRule::round_up}) {
    EXPECT_EQ(mx_scale(r, Format::e4m3, kNan), 0xff);
    EXPECT_EQ(mx_scale(r, Format::e4m3, kInf), 0xff);
    EXPECT_EQ(mx_scale(r, Format::e4m3, kNan, BadAmax::te), 0xff);
    EXPECT_EQ(mx_scale(r, Format::e4m3, kInf, BadAmax::te), 0xfe);
    EXPECT_EQ(mx_scale(r, Format::e4m3, 1e-45F), 0);
  }
}

TEST(Amax, ANanIsFoundAtEveryPlace) {
  for (std::size_t n = 0; n < 32; ++n) {
    std::vector<float> v(32, 1);
    v[n] = -7;
    EXPECT_EQ(amax(v), 7);
    v[n] = kNan;
    EXPECT_TRUE(std::isnan(amax(v))) << n;
    v[n] = -kInf;
    EXPECT_EQ(amax(v), kInf);
  }
  EXPECT_EQ(amax({}), 0);
}

TEST(Nvfp4Scale, TheTwoLevelsOfKnownTensors) {
  struct Case {
    float tensor;
    u32 encode;
    float block;
    u8 scale;
  };
  for (const Case& c : {Case{1.6F, 0x44d20000, 1.6F, 0x7e},
                        {10, 0x43866666, 1.6F, 0x69},
                        {100, 0x41d70a3d, 1.6F, 0x4e},
                        {2688, 0x3f800000, 1.6F, 0x29},
                        {10, 0x43866666, 0, 0x00},
                        {10, 0x43866666, 1e-6F, 0x00},
                        {1e-40F, 0x7f7fffff, 1e-40F, 0x03},
                        {0, 0x3f800000, 0, 0x00}}) {
    const Nvfp4Tensor t = nvfp4_tensor(c.tensor);
    EXPECT_EQ(std::bit_cast<u32>(t.encode), c.encode) << c.tensor;
    EXPECT_EQ(nvfp4_scale(t, c.block), c.scale) << c.tensor << " " << c.block;
  }
  EXPECT_EQ(nvfp4_inverse(nvfp4_tensor(1.6F), 0x7e), 3.74999976F) << "one over the rounded product";
  EXPECT_EQ(nvfp4_inverse(nvfp4_tensor(10), 0x00), kMax);
}

TEST(Nvfp4Scale, BadAmaxesGiveNanScalesOrSaturate) {
  for (const float bad : {kInf, kNan}) EXPECT_EQ(nvfp4_tensor(bad).encode, 1);
  const Nvfp4Tensor t = nvfp4_tensor(10);
  EXPECT_EQ(nvfp4_scale(t, kNan), 0x7f);
  EXPECT_EQ(nvfp4_scale(t, kInf), 0x7f);
  EXPECT_EQ(nvfp4_scale(t, kInf, BadAmax::te), 0x7e);
  EXPECT_TRUE(std::isnan(nvfp4_inverse(t, 0x7f)));
  EXPECT_EQ(nvfp4_scale(nvfp4_tensor(1), kMax), 0x7e) << "never beyond 448";
}

TEST(RandomHadamard, KnownInputsAndItPreservesProducts) {
  std::array<float, 16> x{}, unit{};
  for (std::size_t i = 0; i < 16; ++i) x[i] = static_cast<float>(i + 1);
  const std::array<double, 16> want{-15.5, -7.5, 7.5, -.5, 7.5, -.5,  -15.5, 8.5,
                                    8.5,   16.5, 1.5, 1.5, 1.5, -2.5, 10.5,  -17.5};
  EXPECT_EQ(random_hadamard(x), want);
  unit[3] = 1;
  const auto u = random_hadamard(unit);
  EXPECT_EQ(u[0], -.25);
  EXPECT_EQ(u[1], .25);
  EXPECT_EQ(u[2], .25);
  EXPECT_EQ(u[3], -.25);
  double plain = 0, turned = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    plain += x[i] * unit[i];
    turned += random_hadamard(x)[i] * u[i];
  }
  EXPECT_EQ(turned, plain) << "whole numbers: exact";
}

TEST(TileScale, KnownScalesAndTheFloorOfTheAmax) {
  EXPECT_EQ(std::bit_cast<u32>(tile_scale(3).decode), 0x3bdb6db7u);
  EXPECT_EQ(tile_scale(3, true).decode, 0x1p-7F);
  EXPECT_EQ(std::bit_cast<u32>(tile_scale(0).decode), 0x346facadu);
  EXPECT_EQ(tile_scale(448).decode, 1);
  EXPECT_EQ(tile_scale(448, true).decode, 1);
  EXPECT_EQ(tile_scale(std::nextafterf(448, 500), true).decode, 2);
  EXPECT_TRUE(std::isnan(tile_scale(kInf).decode));
  EXPECT_TRUE(std::isnan(tile_scale(kNan, true).encode));
}

TEST(CurrentScale, KnownScalesAndWhatBadAmaxesGive) {
  EXPECT_EQ(std::bit_cast<u32>(current_scale(Format::e4m3, 3)), 0x43155555u);
  EXPECT_EQ(std::bit_cast<u32>(current_scale(Format::e5m2, 3)), 0x46955555u);
  EXPECT_EQ(current_scale(Format::e4m3, 3, {.power_of_two = true}), 128);
  for (const float bad : {0.0F, kInf, kNan}) EXPECT_EQ(current_scale(Format::e4m3, bad), 1);
  EXPECT_EQ(current_scale(Format::e4m3, 1e-40F), kMax);
  EXPECT_EQ(std::bit_cast<u32>(current_scale(Format::e4m3, 0, {.epsilon = 1e-12F})), 0x57cbba10u);
}

TEST(Hif8Scale, PutsTheAmaxInTheTopBinadeOfThreeMantissaBits) {
  for (const float a : {1e-30F, 0.1F, 1.0F, 15.9F, 1e30F}) {
    const double scaled = double{a} * hif8_scale(a);
    EXPECT_GE(scaled, 8) << a;
    EXPECT_LT(scaled, 16) << a;
  }
  for (const float bad : {0.0F, kInf, kNan}) EXPECT_EQ(hif8_scale(bad), 1);
  EXPECT_EQ(hif8_scale(1e-45F), 0x1p126F);
}

TEST(DelayedScale, AnAmaxHasASayForAsManyStepsAsTheHistoryHolds) {
  const DelayedOptions o{.history = 4};
  DelayedScale s(o);
  std::vector<float> scales;
  for (const float a : {2.0F, 8.0F, 1.0F, 1.0F, 1.0F, 1.0F}) {
    s.update(Format::e4m3, a, o);
    scales.push_back(s.scale);
  }
  EXPECT_EQ(scales, (std::vector<float>{224, 56, 56, 56, 56, 448}));
}

TEST(DelayedScale, MarginMostRecentAndShortHistories) {
  const DelayedOptions margin{.history = 2, .margin = 1}, recent{.history = 8, .most_recent = true};
  DelayedScale a(margin), b(recent), c({.history = 1});
  a.update(Format::e4m3, 1, margin);
  EXPECT_EQ(a.scale, 224);
  for (const float amax : {8.0F, 2.0F}) {
    b.update(Format::e5m2, amax, recent);
    c.update(Format::e5m2, amax, {.history = 1});
  }
  EXPECT_EQ(b.scale, 28672);
  EXPECT_EQ(c.scale, 28672);
}

TEST(DelayedScale, BadAmaxesKeepTheScaleAndAnInfinityFreezesItUntilItLeaves) {
  const DelayedOptions o{.history = 3};
  DelayedScale s(o);
  s.update(Format::e4m3, 4, o);
  s.update(Format::e4m3, kNan, o);
  EXPECT_EQ(s.scale, 112) << "a NaN has no say";
  for (const float a : {kInf, 1.0F, 1.0F}) {
    s.update(Format::e4m3, a, o);
    EXPECT_EQ(s.scale, 112);
  }
  s.update(Format::e4m3, 1, o);
  EXPECT_EQ(s.scale, 448);
  const std::vector<float> before = s.history;
  s.update(Format::e4m3, 0, o);
  EXPECT_EQ(s.scale, 448);
  EXPECT_EQ(s.history, before) << "zero does not enter";
  DelayedScale tiny(o);
  tiny.update(Format::e4m3, 1e-40F, o);
  EXPECT_EQ(tiny.scale, kMax);
}

}  // namespace
}  // namespace lathe::numerics
