// Products with scales beside the elements, and products of every format.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/gemm.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/format.h"
#include "tests/kernels/product_case.h"

namespace lathe::kernels {

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr ScaleCut kNone{}, kTensor{true, 0, 0}, kRow{true, 1, 0}, kTile{true, 1, 128},
    kSquare{true, 128, 128};

class ScaledTable : public testing::TestWithParam<Entry> {
 protected:
  std::vector<std::byte> result(Problem& p, int threads = 2) {
    Queue q(threads);
    p.run(GetParam().product, q);
    return p.c.bytes;
  }
};
/// Those that cut a product to fit into the scratch: all but ref.
class BlockedScaledTable : public ScaledTable {};

TEST_P(ScaledTable, ScaledSumsFollowThePinnedOrderAtEverySmallSize) {
  // Every size from 1 to 67 in each dimension, each with another setting of everything else.
  const DType types[] = {DType::f32, DType::bf16, DType::f64};
  const ScaleCut cuts[] = {kTensor,        kRow,  {true, 0, 32}, {true, 1, 32},
                           {true, 16, 32}, kNone, {true, 5, 32}};
  for (const Format format : {Format::bf16, Format::f32, Format::f64})
    for (i64 i = 0; i < 2 * 67; ++i) {
      Case t{{1 + (i * 29) % 67, 1 + (i * 17) % 67, 1 + (i * 45) % 67}, format};
      t.along_a = i % 2 ? Along::rows : Along::cols;
      t.along_b = i % 4 < 2 ? Along::cols : Along::rows;
      // One rounding from f64 to bf16 is checked by itself.
      t.c_type = format == Format::f64 ? DType::f64 : types[i % 3];
      t.add = i / 3 % 2 == 0;
      t.bias = i % 5 < 2;
      t.gap = i % 7;
      t.scales_a = cuts[i % 7];
      t.scales_b = cuts[i * 3 % 11 % 7];
      expect_pinned_order(GetParam(), t);
    }
}

const std::pair<ScaleCut, ScaleCut> kOfRecipes[] = {
    {kTensor, kTensor}, {kRow, kRow},  {kRow, kTensor}, {kTile, kSquare}, {kTile, kTile},
    {kSquare, kTile},   {kTile, kRow}, {kNone, kTile},  {kSquare, kNone},
};

TEST_P(ScaledTable, ScaledSumsFollowThePinnedOrderAcrossBlocks) {
  const i64 rows = GetParam().name == "ref" ? 19 : 141;  // ref has no blocks
  i64 i = 0;
  for (const Format format : {Format::bf16, Format::f32})
    for (const auto& [a, b] : kOfRecipes)
      for (const i64 m : {i64{3}, rows}) {  // few rows, many rows
        ++i;
        Case t{{m, 397, 453}, format};
        t.along_a = i % 2 ? Along::rows : Along::cols;
        t.along_b = i / 2 % 2 ? Along::rows : Along::cols;
        t.c_type = i % 3 ? DType::f32 : DType::bf16;
        t.add = i / 3 % 2 == 0;
        t.bias = i % 5 < 2;
        t.gap = i % 4;
        t.scales_a = a;
        t.scales_b = b;
        expect_pinned_order(GetParam(), t, m > 8 ? 23 : 1);
      }
}

// In slabs of columns and rows and stretches of the sum; chunks of 128, 160 (which no stretch that
// they do not shape is a multiple of), 4096, of more than fits, and the whole sum.
TEST_P(BlockedScaledTable, ScaledProductsLargerThanTheScratchFollowThePinnedOrder) {
  const auto check = [](const Shape& s, DType c, bool add, i64 chunk, i64 step) {
    Case t{s, Format::bf16, Along::cols, Along::rows, c, add, true};
    t.scales_a = {true, 1, chunk};
    t.scales_b = {true, 128, chunk};
    expect_pinned_order(GetParam(), t, step);
  };
  for (const i64 chunk : {0, 160}) {
    check({9, 6007, 3001}, DType::bf16, false, chunk, 2903);
    check({6007, 9, 3001}, DType::f32, true, chunk, 2903);
    check({2, 5, 300007}, DType::bf16, true, chunk, 1);
  }
  for (const i64 chunk : {0, 128, 160, 4096, 4128}) {
    check({21, 35, 9001}, DType::bf16, false, chunk, 41);
    check({21, 35, 9001}, DType::f32, true, chunk, 41);
  }
}

TEST_P(BlockedScaledTable, FewRowsOfAVeryWideMatrixFindTheirScales) {
  Case t{{8, 600011, 2}};
  t.add = true;
  t.scales_a = kRow;
  t.scales_b = {true, 128, 0};
  expect_pinned_order(GetParam(), t, 7919);
  t.s.k = 33;
  t.c_type = DType::bf16;
  t.scales_a.depth = t.scales_b.depth = 32;
  expect_pinned_order(GetParam(), t, 7919);
}

TEST_P(ScaledTable, AScaledSumCutAtAChunkIsTheSumInOneCall) {
  for (const Format format : {Format::bf16, Format::f32})
    for (const i64 m : {4, 40}) {
      Case t{{m, 70, 453}, format, Along::rows, Along::rows, DType::f32, true};
      t.scales_a = kTile;
      t.scales_b = kSquare;
      Problem whole(t, normal), cut(t, normal);
      result(whole);
      Queue q(2);
      for (const auto& [first, count] : {std::pair<i64, i64>{0, 256}, {256, 128}, {384, 69}}) {
        Operand a = cut.operand_a(), b = cut.operand_b();
        for (Operand* x : {&a, &b}) {
          x->data = x->data.slice_rows(first, count);
          x->scales = x->scales.slice_cols(first / 128, (count + 127) / 128);
        }
        GetParam().product(q, cut.c.view(), a, b, {.add = true});
      }
      EXPECT_EQ(whole.c.bytes, cut.c.bytes);
    }
}

TEST_P(ScaledTable, ThreadsChangeNoBitOfScaledSums) {
  for (const auto& [a, b] : {kOfRecipes[1], kOfRecipes[3]})
    for (const i64 m : {5, 260}) {
      Case t{{m, 210, 300}};
      t.add = true;
      t.scales_a = a;
      t.scales_b = b;
      Problem one(t, normal), two(t, normal), four(t, normal);
      EXPECT_EQ(result(one, 1), result(two, 2));
      EXPECT_EQ(one.c.bytes, result(four, 4));
    }
}

/// Fills what lies between the rows of x with NaN.
void poison(Matrix& x) {
  const i64 size = size_of(x.type);
  for (i64 r = 0; r < x.rows; ++r)
    std::fill_n(x.bytes.begin() + (r * x.stride + x.cols) * size, (x.stride - x.cols) * size,
                std::byte{0xff});
}

TEST_P(ScaledTable, WhatLiesBetweenRowsIsNeverUsed) {
  for (const auto& [a, b] : kOfRecipes)
    for (const i64 m : {2, 37})
      for (const Along along : {Along::cols, Along::rows}) {
        Case t{{m, 51, 139}, Format::bf16, along, along, DType::f32, true, false, 5};
        t.scales_a = a;
        t.scales_b = b;
        Problem clean(t, normal), poisoned(t, normal);
        for (Matrix* x : {&poisoned.a, &poisoned.b, &poisoned.scales_a, &poisoned.scales_b})
          poison(*x);
        EXPECT_EQ(result(clean), result(poisoned));
      }
}

TEST_P(ScaledTable, AScaleThatIsNoNumberSpoilsOnlyWhatItBelongsTo) {
  for (const i64 m : {7, 37})
    for (const i64 depth : {0, 32}) {
      Case t{{m, 150, 70}};
      t.c_type = DType::bf16;
      t.add = true;
      t.scales_a = {true, 1, depth};
      t.scales_b = {true, 64, depth};
      const i64 chunk = depth > 0 ? 1 : 0;
      Problem whole(t, normal), spoilt(t, normal);
      spoilt.scales_a.set(2, chunk, kNan);
      spoilt.scales_b.set(1, chunk, kNan);
      result(whole);
      result(spoilt);
      i64 wrong = 0;
      for (i64 r = 0; r < m; ++r)
        for (i64 n = 0; n < t.s.n; ++n) {
          const bool belongs = r == 2 || n / 64 == 1;
          const double x = spoilt.c.get(r, n);
          wrong += belongs ? !std::isnan(x) : x != whole.c.get(r, n);
        }
      EXPECT_EQ(wrong, 0);
    }
}

// Where nothing overflows or vanishes, a power of two may stand anywhere. Chunks of one group add
// up as groups do.
TEST_P(ScaledTable, PowersOfTwoBesideElementsEqualPowersOfTwoInThem) {
  const auto power = [](u64 i) { return std::ldexp(1.0, static_cast<int>(i * 7 % 13) - 6); };
  const auto draw = [&](u64 what, u64 i) { return what < 4 ? normal(what, i) : power(i); };
  for (const i64 m : {6, 70})
    for (const ScaleCut& cut : {kTensor, kRow, ScaleCut{true, 1, 32}, ScaleCut{true, 16, 32}}) {
      Case t{{m, 67, 133}, Format::bf16, Along::rows, Along::cols};
      t.add = cut.depth == 32;  // else c would be added last, not first
      t.scales_a = t.scales_b = cut;
      Problem beside(t, draw);
      t.scales_a = t.scales_b = kNone;
      Problem inside(t, draw);
      for (i64 k = 0; k < t.s.k; ++k) {
        for (i64 r = 0; r < m; ++r)
          inside.a.set(k, r, inside.a.get(k, r) * Problem::scale_at(beside.scales_a, cut, r, k));
        for (i64 n = 0; n < t.s.n; ++n)
          inside.b.set(n, k, inside.b.get(n, k) * Problem::scale_at(beside.scales_b, cut, n, k));
      }
      EXPECT_EQ(result(beside), result(inside));
    }
}

// Elements of NVFP4 that hold the scale of their block have 6 significant bits; the sum of a
// block's products is exact in FP32 in any order and has at most 19. Times the product of the FP32
// scales, 24 bits, it fits into FP64: so the result has that product's one rounding and its own.
TEST_P(ScaledTable, ABlockOfNvfp4IsExact) {
  for (const i64 m : {3, 40}) {
    Case t{{m, 33, 16}, Format::e2m1};
    t.scales_a = t.scales_b = kTensor;
    const auto draw = [&](u64 what, u64 i) {
      if (what > 3) return what == 4 ? 0x1.23456p-9 : 0x1.fedcbap-7;
      const Rng rng{5, Draw::init, what};
      const auto decode = [&](Format f, u64 index, u64 codes) {
        return numerics::decode(f, static_cast<u32>(rng.word(index) % codes));
      };
      // Elements of either sign, one positive finite scale for all of a vector.
      const double scale = decode(Format::e4m3, 1'000'000 + i / 16, 0x7f);
      return scale * decode(Format::e2m1, i, 16);
    };
    Problem p(t, draw);
    const float scale =
        static_cast<float>(p.scales_a.get(0, 0)) * static_cast<float>(p.scales_b.get(0, 0));
    result(p);
    i64 wrong = 0, nonzero = 0;
    for (i64 r = 0; r < m; ++r)
      for (i64 n = 0; n < t.s.n; ++n) {
        double sum = 0;
        for (i64 k = 0; k < 16; ++k) sum += p.a.get(r, k) * p.b.get(n, k);
        wrong += p.c.get(r, n) != static_cast<double>(static_cast<float>(sum * scale));
        nonzero += sum != 0;
      }
    EXPECT_EQ(wrong, 0);
    EXPECT_GT(nonzero, m * t.s.n / 2);
  }
}

TEST_P(ScaledTable, EveryFormatGoesTheWayOfItsStorage) {
  for (const numerics::FormatInfo& f : numerics::kFormats)
    for (const ScaleCut& cut : {kNone, kRow}) {
      Case t{{19, 35, 77}, f.format};
      t.scales_a = cut;
      t.c_type = master(f.format);
      expect_pinned_order(GetParam(), t);
    }
}

// The FP32 scales of two operands are multiplied first, rounded, and a subnormal product is zero.
TEST_P(ScaledTable, TheProductOfTwoScalesIsRoundedByItself) {
  for (const i64 m : {1, 20}) {
    Case t{{m, 3, 32}};
    t.scales_a = t.scales_b = kTensor;
    const auto scaled = [&](double a, double b, double element) {
      Problem p(t, [&](u64 what, u64 i) {
        return what == 4 ? a : what == 5 ? b : what < 2 && i % 32 == 0 ? element : 0;
      });
      result(p);
      return p.c.get(m - 1, 2);
    };
    // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24 is a tie that goes down; times 3 it would not be.
    EXPECT_EQ(scaled(1 + 0x1p-12, 1 + 0x1p-12, 1), 1 + 0x1p-11);
    EXPECT_EQ(scaled(3, 1 + 0x1p-23, 1), static_cast<double>(3.0F * (1 + 0x1p-23F)));
    EXPECT_EQ(scaled(0x1p-100, 0x1p-100, 0x1p60), 0);
    EXPECT_EQ(scaled(0x1p-130, 0x1p100, 1), 0);
    EXPECT_EQ(scaled(0x1p-60, 0x1p-60, 0x1p60), 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Products, ScaledTable, testing::ValuesIn(entries()),
                         [](const auto& of) { return of.param.name; });
INSTANTIATE_TEST_SUITE_P(Products, BlockedScaledTable, testing::ValuesIn(blocked_entries()),
                         [](const auto& of) { return of.param.name; });

}  // namespace

}  // namespace lathe::kernels
