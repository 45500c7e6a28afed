#include "lathe/kernels/encode.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/gemm.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/numerics/cast.h"
#include "tests/kernels/encode_case.h"
#include "tests/kernels/row_case.h"

namespace lathe::kernels {
namespace {

constexpr Format kElements[] = {Format::f32,  Format::bf16, Format::tf32,     Format::fp16,
                                Format::e4m3, Format::e5m2, Format::e4m3fnuz, Format::e5m2fnuz,
                                Format::e2m3, Format::e3m2, Format::e2m1,     Format::mxint8,
                                Format::hif8};
constexpr Format kMxElements[] = {Format::e4m3, Format::e5m2, Format::e2m3,
                                  Format::e3m2, Format::e2m1, Format::mxint8};
constexpr Tie kTies[] = {Tie::even, Tie::away, Tie::stochastic};
constexpr Along kBoth[] = {Along::cols, Along::rows};
constexpr Draws kDraws{.seed = 11, .stream = u64{5} << 33 | 3, .first_row = 6};

Matrix normal(DType type, i64 R, i64 C, i64 gap = 0, double scale = 1) {
  Matrix x(type, R, C, gap);
  return x.fill(static_cast<u64>(R * 1000 + C), scale);
}

/// f(e) for every scaling, format and rounding that go together.
template <class F>
void for_encodings(const F& f) {
  for (const Tie tie : kTies) {
    for (const Format format : kElements)
      for (const Scaling s : {Scaling::none, Scaling::current, Scaling::delayed, Scaling::row})
        f(Encoding{.format = format, .scaling = s, .rounding = tie});
    f(Encoding{.format = Format::hif8, .scaling = Scaling::shift, .rounding = tie});
    f(Encoding{.format = Format::e4m3, .scaling = Scaling::tile, .rounding = tie});
    f(Encoding{.format = Format::e2m1, .scaling = Scaling::nvfp4, .rounding = tie});
    f(Encoding{.format = Format::s1p2, .scaling = Scaling::hif4, .rounding = tie});
    for (const Format format : kMxElements)
      f(Encoding{.format = format, .scaling = Scaling::mx, .rounding = tie});
  }
}

TEST(Encode, IsTheScalarReferenceInEveryFormatScalingAndRounding) {
  for_encodings([](const Encoding& e) {
    for (const Along along : kBoth)
      for (const DType type : {kF32, kBf16}) {
        expect_right(normal(type, 35, 131, 1), e, along, kDraws, 3);
        expect_right(normal(type, 131, 21, 0, 30), e, along, kDraws);
      }
  });
}

TEST(Encode, IsTheScalarReferenceAtEveryLengthAndStride) {
  for (const Scaling scaling : {Scaling::none, Scaling::row, Scaling::mx, Scaling::nvfp4})
    for (i64 n = 1; n <= kLongest; ++n)
      for (const Along along : kBoth) {
        const Format format = scaling == Scaling::nvfp4 ? Format::e2m1 : Format::e4m3;
        const Encoding e{.format = format, .scaling = scaling, .rounding = Tie::stochastic};
        expect_right(normal(n % 2 == 0 ? kF32 : kBf16, 3, n, n % 5), e, along, kDraws, n % 3);
        expect_right(normal(n % 2 == 0 ? kBf16 : kF32, n, 17, 2), e, along, kDraws, 1);
      }
}

TEST(Encode, IsTheScalarReferenceForManyPanels) {
  const Encoding cases[] = {
      {.format = Format::e4m3, .scaling = Scaling::row},
      {.format = Format::e4m3, .scaling = Scaling::tile},
      {.format = Format::e4m3, .scaling = Scaling::tile, .square = true},
      {.format = Format::e2m1, .scaling = Scaling::nvfp4, .rounding = Tie::stochastic},
      {.format = Format::s1p2, .scaling = Scaling::hif4, .rounding = Tie::away}};
  for (const Encoding& e : cases)
    for (const Along along : kBoth) expect_right(normal(kBf16, 259, 389, 3), e, along, kDraws, 1);
}

// Rows are cut where the amaxes of columns are taken: the largest of each is in any part.
TEST(Encode, ScalesColumnsByAnyOfTheirRows) {
  for (const i64 at : {0, 127, 128, 640, 999})
    for (const int hadamard : {0, 32}) {
      Matrix x = normal(kF32, hadamard > 0 ? 1024 : 1000, 37);
      for (i64 c = 0; c < 37; c += 2) x.set(at, c, 100 + static_cast<double>(c));
      x.set(at, 35, kNaN);
      expect_right(x, {.format = Format::mxint8, .scaling = Scaling::row, .hadamard = hadamard},
                   Along::rows);
    }
}

/// All bf16 values as a matrix, in f32 or as they are.
Matrix every_bf16(DType type) {
  Matrix x(type, 256, 256);
  for (i64 i = 0; i < 65536; ++i) x.set(i / 256, i % 256, to_float(bf16{static_cast<u16>(i)}));
  return x;
}

TEST(Encode, RoundsEveryBf16ValueAsTheScalarReference) {
  for (const Format format : kElements)
    for (const Tie tie : kTies)
      for (const DType type : {kBf16, kF32})
        expect_right(every_bf16(type), {.format = format, .rounding = tie}, Along::cols, kDraws);
}

/// Between every two neighbouring values of a format: the middle, and one float either side of it.
Matrix midpoints(Format format) {
  std::vector<float> at;
  const std::vector<double> values = numerics::finite_values(format);
  for (std::size_t i = 1; i < values.size(); ++i) {
    const auto middle = static_cast<float>((values[i - 1] + values[i]) / 2);
    for (const float to : {-kInf, middle, kInf}) at.push_back(std::nextafter(middle, to));
  }
  const auto largest = static_cast<float>(values.back());
  for (const float beyond : {1.03125F, 1.0625F, 1.25F, 1.5F, 2.0F})
    for (const float to : {0.0F, largest * beyond, kInf})
      at.push_back(std::nextafter(largest * beyond, to));
  const auto cols = static_cast<i64>(at.size());
  Matrix x(kF32, 1, cols);
  for (i64 i = 0; i < cols; ++i) x.set(0, i, at[static_cast<std::size_t>(i)]);
  return x;
}

TEST(Encode, RoundsAboutEveryMidpointAsTheScalarReference) {
  for (const Format format : kElements)
    if (format != Format::f32 && format != Format::tf32)
      for (const Tie tie : kTies)
        expect_right(midpoints(format), {.format = format, .rounding = tie}, Along::cols, kDraws);
}

TEST(Encode, RoundsTf32AboutItsMidpoints) {
  Matrix x(kF32, 8, 255);
  for (i64 r = 0; r < 8; ++r)
    for (i64 c = 0; c < 255; ++c) {
      const u32 low = r < 3   ? 0xfffu + static_cast<u32>(r)
                      : r < 6 ? 0x2fffu - 3 + static_cast<u32>(r)
                              : 0x1fffu;
      const u32 u = (static_cast<u32>(c) << 23) + low + (r == 7 ? 0x7fe000u : 0);
      x.set(r, c, std::bit_cast<float>(u));
    }
  for (const Tie tie : kTies)
    expect_right(x, {.format = Format::tf32, .rounding = tie}, Along::cols, kDraws);
}

TEST(Encode, GoldenRoundings) {
  const auto one = [](Format format, float x, Tie tie = Tie::even) {
    Queue q(1);
    Matrix m(kF32, 1, 1);
    m.set(0, 0, x);
    return encode_with(select("auto"), q, m, {.format = format, .rounding = tie}, Along::cols, {})
        .codes.at(0, 0);
  };
  EXPECT_EQ(one(Format::e4m3, 464), 448);
  EXPECT_EQ(one(Format::e4m3, 1e9F), 448);
  EXPECT_EQ(one(Format::e4m3, kInf), 448);
  EXPECT_EQ(one(Format::e4m3, 0x1p-10F), 0);
  EXPECT_EQ(one(Format::e4m3, std::nextafter(0x1p-10F, 1.0F)), 0x1p-9);
  EXPECT_EQ(one(Format::e4m3, 17), 16);
  EXPECT_EQ(one(Format::e4m3, 19), 20);
  EXPECT_EQ(one(Format::e4m3, 17.001F), 18);  // by way of BF16 it would be 16
  EXPECT_EQ(one(Format::e5m2, 61440), 57344);
  EXPECT_EQ(one(Format::e5m2, 1.125F), 1);
  EXPECT_EQ(one(Format::hif8, 0x1p-23F, Tie::away), 0x1p-22);
  EXPECT_EQ(one(Format::hif8, std::nextafter(0x1p-23F, 0.0F), Tie::away), 0);
  EXPECT_EQ(one(Format::hif8, 40960, Tie::away), 32768);
  EXPECT_EQ(one(Format::hif8, std::nextafter(40960.0F, 0.0F), Tie::away), 32768);
  EXPECT_EQ(one(Format::fp16, kInf), kInf);
  EXPECT_EQ(one(Format::bf16, -kInf), -kInf);
  EXPECT_EQ(one(Format::bf16, kFloatLargest), kInf);
  EXPECT_EQ(one(Format::fp16, 65519.996F), 65504);
  EXPECT_EQ(one(Format::fp16, 65520), kInf);
  for (const Format f : kElements) EXPECT_TRUE(std::isnan(one(f, kNaN)));
}

TEST(Encode, HeadRoomComesAfterTheScaleAndLeavesWithTheScales) {
  for_encodings([](Encoding e) {
    e.head_room = 0.75F;
    for (const Along along : kBoth) expect_right(normal(kBf16, 33, 130), e, along, kDraws);
    e.head_room = 17.0F / 16;
    expect_right(normal(kF32, 33, 130), e, Along::cols, kDraws);
  });
}

/// One table's bits, or one queue's, for each encoding.
Run run_of(const Encoding& e, Along along, DType type, i64 R, i64 C) {
  return [=](const Kernels& k, Queue& q) {
    const Encoded got = encode_with(k, q, normal(type, R, C, 1), e, along, kDraws, 2);
    return std::vector{got.codes, got.scales, got.history};
  };
}

TEST(Encode, GivesTheSameBitsInEveryTable) {
  for_encodings([](Encoding e) {
    for (const Along along : kBoth) expect_same_in_every_table(run_of(e, along, kBf16, 40, 150));
    e.hadamard = 32;
    if (e.rounding == Tie::stochastic)
      expect_same_in_every_table(run_of(e, Along::cols, kF32, 18, 160));
  });
}

TEST(Encode, GivesTheSameBitsForAnyNumberOfThreads) {
  for (const Scaling scaling : {Scaling::none, Scaling::current, Scaling::delayed, Scaling::row,
                                Scaling::tile, Scaling::mx, Scaling::nvfp4}) {
    Encoding e{.format = Format::e4m3, .scaling = scaling, .rounding = Tie::stochastic};
    for (const Along along : kBoth) {
      expect_same_for_any_threads(run_of(e, along, kBf16, 320, 300));
      e.hadamard = 16;
    }
  }
}

TEST(Encode, TakesWhatIsEmpty) {
  Queue q(2);
  for_encodings([&](Encoding e) {
    for (const bool transformed : {false, true})
      for (const Along along : kBoth)
        for (const auto& [R, C] : {std::pair<i64, i64>{0, 0}, {0, 64}, {64, 0}}) {
          e.hadamard = transformed ? 64 : 0;
          const Matrix x(kF32, R, C);
          for (const Kernels* k : {&ref(), &select("auto")}) {
            const Encoded got = encode_with(*k, q, x, e, along, kDraws);
            if (e.scaling == Scaling::current && got.scales.rows() > 0) {
              EXPECT_EQ(got.scales.at(0, 0), 1) << describe(e, along);
            }
            Matrix sums(kF64, 1, kFidelities), view = x, history = history_of(e);
            sums.fill_with(0);
            k->encode.fidelity(q, sums.view(), view.view(), e, along, kDraws,
                               e.scaling == Scaling::delayed ? history.view() : Tensor{});
            for (i64 f = 0; f < kFidelities; ++f) EXPECT_EQ(sums.at(0, f), 0);
          }
        }
  });
}

TEST(Encode, WhatLiesBeyondTheEdgesDoesNotMatter) {
  const auto codes = [](double poison, const Encoding& e, Along along) {
    Queue q(1);
    // A worker's memory is full of what went before.
    Matrix before(kF32, 128, 128), x(kF32, 37, 75, 9);
    before.fill_with(poison);
    const Kernels& k = select("auto");
    encode_with(k, q, before, {.format = Format::e4m3, .scaling = Scaling::tile}, along, {});
    x.fill_with(poison);
    for (i64 r = 0; r < 37; ++r)
      for (i64 c = 0; c < 75; ++c) x.set(r, c, static_cast<double>((r * 31 + c * 17) % 64) - 32);
    const Encoded got = encode_with(k, q, x, e, along, kDraws);
    return std::vector{got.codes, got.scales};
  };
  for_encodings([&](const Encoding& e) {
    for (const Along along : kBoth) {
      const auto clean = codes(0, e, along), dirty = codes(kNaN, e, along);
      EXPECT_TRUE(clean == dirty) << describe(e, along);
    }
  });
}

}  // namespace
}  // namespace lathe::kernels
