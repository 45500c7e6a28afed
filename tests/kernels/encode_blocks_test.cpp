#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <utility>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/gemm.h"
#include "lathe/kernels/kernels.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "tests/kernels/encode_case.h"
#include "tests/kernels/row_case.h"

namespace lathe::kernels {
namespace {

using numerics::MxRule;

constexpr Along kBoth[] = {Along::cols, Along::rows};
constexpr MxRule kRules[] = {MxRule::floor, MxRule::ceil, MxRule::even, MxRule::round_up};
constexpr Format kMxElements[] = {Format::e4m3, Format::e5m2, Format::e2m3,
                                  Format::e3m2, Format::e2m1, Format::mxint8};

std::vector<Encoding> with_blocks() {
  std::vector<Encoding> all;
  for (const Format f : kMxElements)
    for (const MxRule rule : kRules)
      all.push_back({.format = f, .scaling = Scaling::mx, .mx_rule = rule});
  all.push_back({.format = Format::e2m1, .scaling = Scaling::nvfp4});
  all.push_back({.format = Format::e4m3, .scaling = Scaling::tile});
  all.push_back({.format = Format::e4m3, .scaling = Scaling::tile, .power_of_two = true});
  all.push_back({.format = Format::s1p2, .scaling = Scaling::hif4, .rounding = Tie::away});
  all.push_back({.format = Format::e4m3, .scaling = Scaling::row});
  all.push_back({.format = Format::mxint8, .scaling = Scaling::row});
  all.push_back({.format = Format::e4m3, .scaling = Scaling::row, .power_of_two = true});
  all.push_back({.format = Format::e4m3, .scaling = Scaling::current, .power_of_two = true});
  all.push_back({.format = Format::hif8, .scaling = Scaling::shift, .rounding = Tie::away});
  return all;
}

TEST(EncodeBlocks, OfEverySizeOfNumbersAreTheScalarReference) {
  for (const Encoding& e : with_blocks())
    for (const Along along : kBoth)
      for (const double scale : {0x1p-124, 0x1p-110, 0x1p-60, 1.0, 0x1p60, 0x1p118, 0x1p125}) {
        Matrix x(kF32, 67, 130);
        expect_right(x.fill(3, scale), e, along);
      }
}

TEST(EncodeBlocks, TakeOneSpecialValueAtAnyPlaceAsTheScalarReference) {
  const float values[] = {0,          kInf,     -kInf, kNaN, kFloatLargest, -kFloatLargest,
                          kMinNormal, 0x1p-140F};
  for (const Encoding& e : with_blocks())
    for (const Along along : kBoth)
      for (i64 place = 0; place < 64; ++place) {
        Matrix x(kF32, along == Along::cols ? 8 : 64, along == Along::cols ? 64 : 8);
        x.fill(5);
        for (i64 v = 0; v < 8; ++v)
          x.set(along == Along::cols ? v : place, along == Along::cols ? place : v, values[v]);
        expect_right(x, e, along);
      }
}

TEST(EncodeBlocks, OfNothingButOneValueAreTheScalarReference) {
  for (const Encoding& e : with_blocks())
    for (const float value :
         {0.0F, -0.0F, 1.0F, 1e-40F, kMinNormal, kFloatLargest, kInf, kNaN, 1e-30F, 1e-36F}) {
      Matrix x(kF32, 64, 32);
      expect_right(x.fill_with(value), e, Along::cols);
      expect_right(x, e, Along::rows);
    }
}

// Every amax near those where a rule changes its mind.
TEST(EncodeBlocks, MxScalesChangeWhereTheScalarReferenceDoes) {
  for (const Format f : kMxElements)
    for (const MxRule rule : kRules) {
      Matrix x(kF32, 64, 32);
      x.fill_with(0);
      i64 row = 0;
      for (const float at : {static_cast<float>(numerics::info(f).largest), 1.0F, 1.5F, 1.75F,
                             1.9375F, 1.984375F, 2.0F, 3.5F})
        for (const int power : {0, 20})
          for (const float to : {0.0F, at, kInf})
            x.set(row++, 7, std::ldexp(std::nextafter(at, to), power));
      expect_right(x, {.format = f, .scaling = Scaling::mx, .mx_rule = rule}, Along::cols);
    }
}

TEST(EncodeBlocks, SquareOnesHoldTheSameValuesBothWays) {
  Queue q(1);
  for (Encoding e : {Encoding{.format = Format::e2m1, .scaling = Scaling::nvfp4},
                     Encoding{.format = Format::e4m3, .scaling = Scaling::tile},
                     Encoding{.format = Format::e4m3, .scaling = Scaling::mx}}) {
    e.square = true;
    Matrix x(kF32, 150, 270);
    x.fill(9);
    for (const Along along : kBoth) expect_right(x, e, along);
    const Encoded a = encode_with(select("auto"), q, x, e, Along::cols, {});
    const Encoded b = encode_with(select("auto"), q, x, e, Along::rows, {});
    EXPECT_TRUE(a.codes == b.codes);
    for (i64 i = 0; i < a.scales.rows(); ++i)
      for (i64 j = 0; j < a.scales.cols(); ++j) EXPECT_EQ(a.scales.at(i, j), b.scales.at(j, i));
  }
}

TEST(EncodeBlocks, SquareOnesAtEveryEdge) {
  for (const i64 n : {1, 15, 16, 17, 31, 33, 127, 129})
    for (Encoding e : {Encoding{.format = Format::e2m1, .scaling = Scaling::nvfp4},
                       Encoding{.format = Format::e4m3, .scaling = Scaling::tile},
                       Encoding{.format = Format::e2m1, .scaling = Scaling::mx}}) {
      e.square = true;
      Matrix x(kBf16, n, 40);
      expect_right(x.fill(9), e, Along::cols, {}, 1);
      expect_right(x, e, Along::rows, {}, 1);
    }
}

struct Golden {
  double tensor_amax, scale, values[16];
};

// The block 0.1, -0.2, 0.3 … -1.6 under tensors of several amaxes, as TransformerEngine has it:
// scale bytes 7e, 69, 4e and 29, and codes of E2M1.
TEST(EncodeBlocks, Nvfp4Goldens) {
  constexpr double kUsual[16] = {.5, -.5, 1, -1.5, 2, -2, 3, -3, 3, -4, 4, -4, 4, -6, 6, -6};
  const auto with = [&](double amax, double scale,
                        const std::vector<std::pair<int, double>>& other) {
    Golden g{amax, scale, {}};
    for (int i = 0; i < 16; ++i) g.values[i] = kUsual[i];
    for (const auto& [at, value] : other) g.values[at] = value;
    return g;
  };
  const Golden goldens[] = {with(1.6, 448, {}), with(10, 72, {}), with(100, 7, {{1, -1}}),
                            with(2688, .28125, {{6, 2}, {13, -4}})};
  Queue q(1);
  for (const Golden& g : goldens) {
    Matrix x(kF32, 2, 16);
    x.fill_with(0);
    for (i64 i = 0; i < 16; ++i)
      x.set(0, i, static_cast<float>(static_cast<double>(i + 1) / 10) * (i % 2 == 0 ? 1 : -1));
    x.set(1, 0, g.tensor_amax);
    const Encoding e{.format = Format::e2m1, .scaling = Scaling::nvfp4};
    const Encoded got = encode_with(select("auto"), q, x, e, Along::cols, {});
    for (i64 i = 0; i < 16; ++i)
      EXPECT_EQ(got.codes.at(0, i), g.values[i] * g.scale) << g.tensor_amax << " " << i;
    EXPECT_EQ(got.scales.at(0, 0), static_cast<float>(g.tensor_amax) / 2688);
  }
}

TEST(EncodeBlocks, MxGoldens) {
  // 957 under floor is clamped to 448 twos, under round-up it is 240 fours.
  const auto of = [](MxRule rule) {
    Queue q(1);
    Matrix x(kF32, 1, 32);
    x.fill_with(0);
    x.set(0, 3, 957);
    return encode_with(select("auto"), q, x,
                       {.format = Format::e4m3, .scaling = Scaling::mx, .mx_rule = rule},
                       Along::cols, {})
        .codes.at(0, 3);
  };
  EXPECT_EQ(of(MxRule::floor), 896);
  EXPECT_EQ(of(MxRule::round_up), 960);
}

TEST(EncodeBlocks, CurrentScalesGoldens) {
  const auto of = [](Format format, bool power_of_two) {
    Queue q(1);
    Matrix x(kF32, 1, 2);
    x.set(0, 0, 1), x.set(0, 1, -3);
    const Encoding e{.format = format, .scaling = Scaling::current, .power_of_two = power_of_two};
    return static_cast<float>(
        encode_with(select("auto"), q, x, e, Along::cols, {}).scales.at(0, 0));
  };
  EXPECT_EQ(of(Format::e4m3, false), 1 / std::bit_cast<float>(0x43155555u));
  EXPECT_EQ(of(Format::e5m2, false), 1 / std::bit_cast<float>(0x46955555u));
  EXPECT_EQ(of(Format::e4m3, true), 1.0F / 128);
}

}  // namespace
}  // namespace lathe::kernels
