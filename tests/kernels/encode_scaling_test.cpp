// What encoding does beyond one block: transforms, histories, and how faithful it is.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/encode.h"
#include "lathe/kernels/encode_rows.h"
#include "lathe/kernels/gemm.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/scale.h"
#include "tests/kernels/encode_case.h"
#include "tests/kernels/row_case.h"
#include "tests/support/samples.h"

namespace lathe::kernels {
namespace {

using numerics::MxRule;

constexpr Along kBoth[] = {Along::cols, Along::rows};
constexpr Draws kDraws{.seed = 7, .stream = 9};

TEST(EncodeHadamard, IsTheScalarReferenceInEveryScaling) {
  for (const Scaling s : {Scaling::none, Scaling::current, Scaling::delayed, Scaling::row,
                          Scaling::tile, Scaling::mx, Scaling::nvfp4, Scaling::hif4})
    for (const int order : {16, 32, 64})
      for (const Along along : kBoth)
        for (const DType type : {kF32, kBf16}) {
          const Format f = s == Scaling::hif4    ? Format::s1p2
                           : s == Scaling::nvfp4 ? Format::e2m1
                                                 : Format::e4m3;
          const Encoding e{.format = f,
                           .scaling = s,
                           .rounding = Tie::stochastic,
                           .hadamard = order,
                           .head_room = s == Scaling::mx ? 0.75F : 1.0F};
          Matrix x(type, along == Along::cols ? 19 : 192, along == Along::cols ? 192 : 19, 1);
          expect_right(x.fill(4), e, along, kDraws, 2);
        }
}

TEST(EncodeHadamard, Goldens) {
  const double want[] = {-15.5, -7.5, 7.5, -.5, 7.5, -.5,  -15.5, 8.5,
                         8.5,   16.5, 1.5, 1.5, 1.5, -2.5, 10.5,  -17.5};
  Queue q(1);
  const Encoding e{.format = Format::f32, .hadamard = 16};
  for (const Along along : kBoth) {
    const bool cols = along == Along::cols;
    Matrix x(kF32, cols ? 1 : 16, cols ? 16 : 1);
    for (i64 i = 0; i < 16; ++i) x.set(cols ? 0 : i, cols ? i : 0, static_cast<double>(i + 1));
    const Encoded got = encode_with(select("auto"), q, x, e, along, {});
    for (i64 i = 0; i < 16; ++i) EXPECT_EQ(got.codes.at(cols ? 0 : i, cols ? i : 0), want[i]) << i;
  }
}

// With small whole numbers every butterfly is exact, and so are quarters and eighths of them.
TEST(EncodeHadamard, OfBothOperandsLeavesTheirProductUnchanged) {
  Queue q(1);
  for (const int order : {16, 64}) {
    Matrix a(kF32, 3, 128), b(kF32, 128, 5);
    for (i64 k = 0; k < 128; ++k) {
      for (i64 i = 0; i < 3; ++i) a.set(i, k, static_cast<double>((i * 37 + k * 11) % 17 - 8));
      for (i64 j = 0; j < 5; ++j) b.set(k, j, static_cast<double>((j * 29 + k * 7) % 15 - 7));
    }
    const Encoding e{.format = Format::f32, .hadamard = order};
    const Matrix ha = encode_with(select("auto"), q, a, e, Along::cols, {}).codes;
    const Matrix hb = encode_with(select("auto"), q, b, e, Along::rows, {}).codes;
    for (i64 i = 0; i < 3; ++i)
      for (i64 j = 0; j < 5; ++j) {
        double plain = 0, turned = 0;
        for (i64 k = 0; k < 128; ++k) {
          plain += a.at(i, k) * b.at(k, j);
          turned += ha.at(i, k) * hb.at(k, j);
        }
        EXPECT_EQ(plain, turned) << order;
      }
  }
}

/// Amaxes of many steps, with everything that may go wrong among them.
std::vector<float> amaxes() {
  std::vector<float> all{2, 8,      1,      1, 1,    1, 0, 0, kInf, 3, 0,
                         5, 1e-38F, 1e-30F, 1, kNaN, 4, 4, 4, 4,    4};
  const Rng rng{5};
  for (u64 i = 0; i < 40; ++i) {
    const double u = rng.uniform(i);
    all.push_back(u < 0.1 ? 0 : u < 0.15 ? kInf : static_cast<float>(std::exp(20 * u - 10)));
  }
  return all;
}

TEST(EncodeHistory, IsDelayedScaleOverAnySteps) {
  Queue q(1);
  for (const int length : {1, 2, 3, 4, 7})
    for (const int margin : {0, 1})
      for (const bool most_recent : {false, true}) {
        const numerics::DelayedOptions o{length, margin, most_recent};
        numerics::DelayedScale want(o);
        Matrix h(kF32, 1, 1 + length);
        h.fill_with(0);
        h.set(0, 0, 1);
        for (const float amax : amaxes()) {
          h.set(0, 1, amax);
          select("auto").encode.update_history(q, h.view(), Format::e5m2, margin, most_recent);
          want.update(Format::e5m2, amax, o);
          EXPECT_EQ(code_bits(h.at(0, 0)), code_bits(want.scale));
          for (i64 i = 0; i < length; ++i)
            EXPECT_EQ(code_bits(h.at(0, 1 + i)),
                      code_bits(want.history[static_cast<std::size_t>(i)]));
        }
      }
}

TEST(EncodeHistory, Golden) {
  Queue q(1);
  Matrix h(kF32, 1, 5);
  h.fill_with(0);
  h.set(0, 0, 1);
  std::vector<double> scales;
  for (const float amax : {2.0F, 8.0F, 1.0F, 1.0F, 1.0F, 1.0F}) {
    h.set(0, 1, amax);
    select("auto").encode.update_history(q, h.view(), Format::e4m3, 0, false);
    scales.push_back(h.at(0, 0));
  }
  EXPECT_EQ(scales, (std::vector<double>{224, 56, 56, 56, 56, 448}));
}

TEST(EncodeHistory, IsRaisedByEveryEncodingOfAStep) {
  Queue q(1);
  for (const Candidate& t : candidates()) {
    if (!t.why_not.empty()) continue;
    Matrix x(kF32, 20, 70), codes(kBf16, 20, 70), scales(kF32, 1, 1), h(kF32, 1, 3);
    h.fill_with(0);
    h.set(0, 0, 16);
    const Encoding e{.format = Format::e4m3, .scaling = Scaling::delayed};
    const auto encode = [&](double largest, double sums_of_nothing) {
      x.fill_with(0.25);
      x.set(19, 69, -largest);
      t.table->encode.encode(q, codes.view(), scales.view(), x.view(), e, Along::cols, {},
                             h.view());
      Matrix sums(kF64, 1, kFidelities);
      sums.fill_with(sums_of_nothing);
      t.table->encode.fidelity(q, sums.view(), x.view(), e, Along::cols, {}, h.view());
      return h.at(0, 1);
    };
    EXPECT_EQ(encode(3, 0), 3);
    EXPECT_EQ(encode(2, 0), 3);
    EXPECT_EQ(encode(5, 0), 5);
    EXPECT_EQ(encode(kNaN, 0), 5);
    EXPECT_EQ(encode(kInf, 0), kInf);
    EXPECT_EQ(codes.at(0, 0), 4);
    EXPECT_EQ(codes.at(19, 69), -448);
    EXPECT_EQ(scales.at(0, 0), 1.0 / 16);
  }
}

struct Sums {
  Matrix m;
  double operator[](i64 f) const { return m.at(0, f); }
};

Sums fidelity(const Kernels& k, Matrix x, const Encoding& e, Along along) {
  Queue q(2);
  Matrix sums(kF64, 1, kFidelities), h = history_of(e);
  sums.fill_with(0);
  k.encode.fidelity(q, sums.view(), x.view(), e, along, kDraws,
                    e.scaling == Scaling::delayed ? h.view() : Tensor{});
  return {sums};
}

/// Entry of x's scales that belongs to element (r, c).
double scale_at(const Encoded& got, const Encoding& e, Along along, i64 r, i64 c) {
  const i64 v = along == Along::cols ? r : c, k = along == Along::cols ? c : r;
  const numerics::ScaleShape s = numerics::scale_shape(e, 1, 1);
  if (s.rows == 0) return 1;
  return got.scales.at(s.outer == 0 ? 0 : v / s.outer, s.depth == 0 ? 0 : k / s.depth);
}

// Sums of n positive terms are off by at most n 2^-53, relative, in either order.
TEST(EncodeFidelity, SaysWhatEncodingDid) {
  Queue q(1);
  for (const Scaling s : {Scaling::none, Scaling::current, Scaling::delayed, Scaling::row,
                          Scaling::tile, Scaling::mx, Scaling::nvfp4, Scaling::hif4})
    for (const Tie tie : {Tie::even, Tie::stochastic})
      for (const Along along : kBoth) {
        const Format f = s == Scaling::hif4 ? Format::s1p2 : Format::e2m1;
        const Encoding e{.format = f,
                         .scaling = s,
                         .rounding = tie,
                         .hadamard = 16,
                         .head_room = s == Scaling::hif4 ? 1.0F : 0.75F};
        Matrix x(kF32, 48, 160);
        x.fill(8, 2);
        const Oracle oracle(x, e, along, kDraws, 3);
        const Vectors& turned = oracle.transformed();
        const Encoded got = encode_with(ref(), q, x, e, along, kDraws);
        double signal = 0, noise = 0, underflow = 0, nonzero = 0, largest = 0;
        for (i64 r = 0; r < 48; ++r)
          for (i64 c = 0; c < 160; ++c) {
            const double value = along == Along::cols ? turned.at(r, c) : turned.at(c, r);
            const double seen = got.codes.at(r, c) * scale_at(got, e, along, r, c);
            signal += value * value;
            noise += (value - seen) * (value - seen);
            nonzero += value != 0;
            underflow += value != 0 && seen == 0;
            largest = std::max(largest, std::fabs(value));
          }
        const double bound = 2 * 48 * 160 * 0x1p-53;
        for (const Kernels* k : {&ref(), &select("auto")}) {
          const Sums sums = fidelity(*k, x, e, along);
          EXPECT_NEAR(sums[kSignal], signal, bound * signal) << describe(e, along);
          EXPECT_NEAR(sums[kNoise], noise, bound * noise) << describe(e, along);
          EXPECT_EQ(sums[kElements], 48 * 160);
          EXPECT_EQ(sums[kNonzero], nonzero);
          EXPECT_EQ(sums[kUnderflow], underflow) << describe(e, along);
          EXPECT_EQ(sums[kLargest], largest);
        }
      }
}

TEST(EncodeFidelity, CountsWhatRoundsBeyondTheLargest) {
  const auto count = [](Format f, std::vector<double> values, Tie tie = Tie::even) {
    Matrix x(kF32, 1, static_cast<i64>(values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) x.set(0, static_cast<i64>(i), values[i]);
    return fidelity(select("auto"), x, {.format = f, .rounding = tie}, Along::cols)[kSaturated];
  };
  EXPECT_EQ(count(Format::e4m3, {448, 464, -464, 464.1, -1000, kInf}), 3);
  EXPECT_EQ(count(Format::e2m1, {6, 6.9, 7, -7, 100}), 3);
  EXPECT_EQ(count(Format::hif8, {32768, 40959, 40960, -50000}, Tie::away), 2);
  EXPECT_EQ(count(Format::bf16, {1, kFloatLargest}), 1);
}

// What overflows a format with infinities is one to products, and the noise is infinite; an
// infinity that was one before is no number to measure.
TEST(EncodeFidelity, CountsAnOverflowAsWhatProductsSee) {
  const auto of = [](const Kernels& k, const Encoding& e, double value) {
    Matrix x(kF32, 1, 3);
    x.set(0, 0, 1), x.set(0, 1, value), x.set(0, 2, -2);
    return fidelity(k, x, e, Along::cols);
  };
  for (const Candidate& t : candidates()) {
    if (!t.why_not.empty()) continue;
    SCOPED_TRACE(t.table->name);
    for (const Tie tie : {Tie::even, Tie::away, Tie::stochastic}) {
      const auto with = [&](Format f, double value) {
        return of(*t.table, {.format = f, .rounding = tie}, value);
      };
      for (const double value : {131008.0, 65536.0, -1e30}) {
        const Sums s = with(Format::fp16, value);
        EXPECT_EQ(s[kNoise], kInf) << value;
        EXPECT_EQ(s[kSaturated], 1) << value;
      }
      for (const Format f : {Format::bf16, Format::tf32}) {
        const Sums s = with(f, std::nextafter(kFloatLargest, 0.0F));
        if (tie == Tie::stochastic && s[kSaturated] == 0) continue;  // it may go down
        EXPECT_EQ(s[kNoise], kInf) << numerics::info(f).name;
      }
      EXPECT_EQ(with(Format::fp16, 65504)[kNoise], 0);
      EXPECT_TRUE(std::isnan(with(Format::fp16, kInf)[kNoise]));
      EXPECT_EQ(with(Format::e5m2, 1e9)[kNoise], (1e9 - 57344) * (1e9 - 57344));
    }
    for (const Scaling s : {Scaling::row, Scaling::current}) {
      const Sums sums = of(*t.table, {.format = Format::fp16, .scaling = s}, 1e30);
      EXPECT_TRUE(std::isfinite(sums[kNoise]));
      EXPECT_EQ(sums[kSaturated], 0);
    }
    EXPECT_EQ(of(*t.table, {.format = Format::f32}, kFloatLargest)[kNoise], 0);
  }
}

// 620000 panels of one column, all rows being the same one: their sums are more than the memory
// that workers share, and those of 310000 more than what row scaling leaves of it.
TEST(EncodeFidelity, IsRightForMorePanelsThanMemoryHolds) {
  constexpr i64 kRows = i64{16} * 620000;
  Queue q(1);
  const Kernels& k = select("auto");
  const auto expect = [&](float value, const Encoding& e, double noise) {
    const ConstTensor x = Tensor{&value, DType::f32, kRows, 1, 0};
    Matrix sums(kF64, 1, kFidelities);
    sums.fill_with(0);
    k.encode.fidelity(q, sums.view(), x, e, Along::rows, {}, {});
    constexpr double kCount = kRows;
    EXPECT_EQ(sums.at(0, kSignal), kCount * value * value);
    EXPECT_EQ(sums.at(0, kNoise), kCount * noise);
    EXPECT_EQ(sums.at(0, kElements), kCount);
    EXPECT_EQ(sums.at(0, kNonzero), kCount);
    EXPECT_EQ(sums.at(0, kUnderflow), 0);
    EXPECT_EQ(sums.at(0, kLargest), value);
  };
  expect(1.0625F, {.format = Format::e4m3}, 0x1p-8);
  expect(1.75F, {.format = Format::e4m3, .scaling = Scaling::row}, 0);  // 448 / 256
}

TEST(EncodeFidelity, IsTheSameHoweverFewPanelsMemoryHolds) {
  Queue q(2);
  Matrix x(kF32, 300, 1100);
  x.fill(6, 3);
  for (const Along along : kBoth)
    for (const Encoding& e : {Encoding{.format = Format::e4m3, .rounding = Tie::stochastic},
                              Encoding{.format = Format::e2m1, .scaling = Scaling::mx},
                              Encoding{.format = Format::mxint8, .scaling = Scaling::row}}) {
      Matrix want(kF64, 1, kFidelities);
      want.fill_with(0.5);
      const Matrix before = want;
      ref().encode.fidelity(q, want.view(), x.view(), e, along, kDraws, {});
      for (const i64 most : {8, 9, 23, 100}) {
        Matrix sums = before;
        fidelity_by<Plain<float>>(q, most, sums.view(), x.view(), e, along, kDraws, {});
        EXPECT_TRUE(sums == want) << most << " " << describe(e, along);
      }
    }
}

TEST(EncodeFidelity, AddsToWhatIsThereInEveryTableAndForAnyThreads) {
  const kernels::Run run = [](const Kernels& k, Queue& q) {
    Matrix x(kBf16, 200, 300), sums(kF64, 1, kFidelities);
    x.fill(3);
    sums.fill_with(1);
    const Encoding e{.format = Format::e4m3, .scaling = Scaling::tile};
    k.encode.fidelity(q, sums.view(), x.view(), e, Along::cols, {}, {});
    EXPECT_EQ(sums.at(0, kElements), 60001);
    return std::vector{sums};
  };
  expect_same_in_every_table(run);
  expect_same_for_any_threads(run);
}

struct Scheme {
  std::string_view name;  // in kFigures
  Encoding encoding;
};

std::vector<Scheme> schemes() {
  const auto mx = [](Format f, MxRule rule) {
    return Encoding{.format = f, .scaling = Scaling::mx, .mx_rule = rule};
  };
  return {{"bf16", {.format = Format::bf16}},
          {"e4m3", {.format = Format::e4m3, .scaling = Scaling::current}},
          {"e5m2", {.format = Format::e5m2, .scaling = Scaling::current}},
          {"hif8", {.format = Format::hif8, .rounding = Tie::away}},
          {"mxfp8 floor", mx(Format::e4m3, MxRule::floor)},
          {"mxfp8 round-up", mx(Format::e4m3, MxRule::round_up)},
          {"mxfp8e5m2 round-up", mx(Format::e5m2, MxRule::round_up)},
          {"mxfp6e2m3 floor", mx(Format::e2m3, MxRule::floor)},
          {"mxfp6e3m2 floor", mx(Format::e3m2, MxRule::floor)},
          {"mxint8 floor", mx(Format::mxint8, MxRule::floor)},
          {"mxfp4 floor", mx(Format::e2m1, MxRule::floor)},
          {"mxfp4 round-up", mx(Format::e2m1, MxRule::round_up)},
          {"nvfp4", {.format = Format::e2m1, .scaling = Scaling::nvfp4}}};
}

/// The samples as 64 vectors of 512.
Matrix vectors_of(const std::vector<float>& samples, Along along) {
  const bool cols = along == Along::cols;
  Matrix x(kF32, cols ? 64 : 512, cols ? 512 : 64);
  for (i64 i = 0; i < testing_support::kSamples; ++i)
    x.set(cols ? i / 512 : i % 512, cols ? i % 512 : i / 512, samples[static_cast<std::size_t>(i)]);
  return x;
}

// Normal deviates, some with outliers, and a lognormal distribution of either sign.
TEST(EncodeFidelity, IsThatOfTheReferenceOnThreeKindsOfData) {
  const testing_support::Samples s = testing_support::samples();
  const std::vector<float>* data[]{&s.normal, &s.outliers, &s.lognormal};
  const std::vector<Scheme> all = schemes();
  ASSERT_EQ(all.size(), std::size(testing_support::kFigures));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const testing_support::Figures& want = testing_support::kFigures[i];
    ASSERT_EQ(all[i].name, want.name);
    for (const Along along : kBoth)
      for (std::size_t n = 0; n < 3; ++n) {
        const Sums sums =
            fidelity(select("auto"), vectors_of(*data[n], along), all[i].encoding, along);
        const double decibels = 10 * std::log10(sums[kSignal] / sums[kNoise]);
        const double underflow = 100 * sums[kUnderflow] / sums[kElements];
        EXPECT_TRUE(testing_support::agree({decibels, underflow}, want.of[n]))
            << describe(all[i].encoding, along) << ", data " << n << ": " << decibels << " dB, "
            << underflow << " %";
      }
  }
}

}  // namespace
}  // namespace lathe::kernels
