#include "lathe/kernels/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "tests/kernels/product_case.h"

namespace lathe::kernels {

namespace {

class EachTable : public testing::TestWithParam<Entry> {};
/// Those that cut a product to fit into the scratch: all but ref.
class BlockedTable : public EachTable {};

TEST_P(EachTable, ProductsFollowThePinnedOrderAtEverySmallSize) {
  // Every size from 1 to 67 in each dimension, each with another setting of everything else.
  const DType types[] = {DType::f32, DType::bf16, DType::f64};
  for (const Format format : {Format::bf16, Format::f32, Format::f64})
    for (i64 i = 0; i < 67; ++i) {
      Case t{{1 + (i * 29) % 67, 1 + (i * 17) % 67, 1 + (i * 45) % 67}, format};
      t.along_a = i % 2 ? Along::rows : Along::cols;
      t.along_b = i % 4 < 2 ? Along::cols : Along::rows;
      // One rounding from f64 to bf16 is checked by itself.
      t.c_type = types[i % (format == Format::f64 ? 1 : 3)];
      if (format == Format::f64 && i % 3) t.c_type = DType::f64;
      t.add = i % 3 == 1;
      t.bias = i % 5 < 2;
      t.gap = i % 7;
      expect_pinned_order(GetParam(), t);
    }
}

TEST_P(EachTable, ProductsFollowThePinnedOrderAcrossBlocks) {
  for (const Format format : {Format::bf16, Format::f32})
    for (const Along a : {Along::cols, Along::rows})
      for (const Along b : {Along::cols, Along::rows}) {
        expect_pinned_order(GetParam(),
                            {{133, 391, 230}, format, a, b, DType::bf16, false, true, 3}, 17);
        expect_pinned_order(GetParam(), {{270, 49, 453}, format, a, b, DType::f32, true, false, 1},
                            7);
      }
}

TEST_P(EachTable, FewRowsFollowThePinnedOrder) {
  for (const Format format : {Format::bf16, Format::f32})
    for (i64 m = 1; m <= 10; ++m)
      for (const Along b : {Along::cols, Along::rows})
        expect_pinned_order(
            GetParam(),
            {{m, 117, 331}, format, Along::cols, b, m % 2 ? DType::bf16 : DType::f32, m % 3 == 0},
            3);
}

// Operands that do not fit into the scratch at once: they go in slabs of columns or rows, or in
// chunks of the summed dimension where sums can wait in c; a very long sum in chunks always.
TEST_P(BlockedTable, ProductsLargerThanTheScratchFollowThePinnedOrder) {
  const auto check = [](const Shape& s, DType c, bool add, i64 step) {
    expect_pinned_order(GetParam(), {s, Format::bf16, Along::cols, Along::rows, c, add, true},
                        step);
  };
  check({9, 6007, 3001}, DType::bf16, false, 1709);
  check({6007, 9, 3001}, DType::bf16, false, 1709);
  check({6007, 9, 3001}, DType::f32, true, 1709);
  for (const DType c : {DType::bf16, DType::f32, DType::f64}) check({21, 35, 9001}, c, true, 31);
}

TEST_P(EachTable, WholeNumbersAreExact) {
  // Sums stay below 2^24: products of at most 25, fewer than 2^15 of them.
  const auto whole = [](u64 what, u64 i) {
    return static_cast<double>(Rng{1, Draw::init, what}.word(i) % 11) - 5;
  };
  for (const Format format : {Format::bf16, Format::f32, Format::f64}) {
    Case t{{37, 61, 200}, format, Along::cols, Along::rows, master(format), true, true, 2};
    Problem p(t, whole);
    Matrix want = p.c;
    for (i64 m = 0; m < t.s.m; ++m)
      for (i64 n = 0; n < t.s.n; ++n) {
        double sum = p.c.get(m, n) + p.bias.get(0, n);
        for (i64 k = 0; k < t.s.k; ++k) sum += p.a.get(m, k) * p.b.get(k, n);
        want.set(m, n, sum);
      }
    Queue q(2);
    p.run(GetParam().product, q);
    EXPECT_EQ(p.c.bytes, want.bytes);
  }
}

/// One product of one element, with a and b zero but for the terms given.
struct Term {
  i64 k;
  double a, b;
};
float one_sum(Product product, double start, const std::vector<Term>& terms, i64 m = 1) {
  Case t{{m, 3, 32}};
  t.add = true;
  Problem p(t, [](u64, u64) { return 0.0; });
  for (i64 row = 0; row < m; ++row) {
    for (const Term& term : terms) p.a.set(row, term.k, term.a);
    p.c.set(row, 1, start);
  }
  for (const Term& term : terms) p.b.set(1, term.k, term.b);
  Queue q(1);
  p.run(product, q);
  return static_cast<float>(p.c.get(m - 1, 1));
}

// Measured on AMX.
TEST_P(EachTable, SumsRoundAsTileHardwareDoes) {
  const double big = 0x1p24;
  for (const i64 m : {1, 20}) {
    const auto sum = [&](double start, const std::vector<Term>& terms) {
      return one_sum(GetParam().product, start, terms, m);
    };
    EXPECT_EQ(sum(-big, {{0, big, 1}, {1, 1, 1}}), 0.0f);
    EXPECT_EQ(sum(0, {{0, big, 1}, {1, 1, 1}, {2, -big, 1}}), 1.0f);
    EXPECT_EQ(sum(0, {{0, big, 1}, {2, 1, 1}, {4, -big, 1}}), 0.0f);
    EXPECT_EQ(sum(0, {{0, 0x1p-127, 0x1p127}}), 0.0f);
    EXPECT_EQ(sum(0, {{0, 0x1p-63, 0x1p-64}}), 0.0f);
    EXPECT_EQ(sum(0x1p-127, {}), 0.0f);
    // A product below the normal numbers counts where the sum is normal.
    EXPECT_EQ(sum(0, {{0, 0x1p-126, 1}, {2, 0x1p-64, 0x1p-64}}), 0x1.4p-126f);
  }
}

TEST_P(EachTable, NanAndInfinityPropagate) {
  const double inf = std::numeric_limits<double>::infinity(),
               nan = std::numeric_limits<double>::quiet_NaN();
  for (const i64 m : {1, 20}) {
    const auto sum = [&](double start, const std::vector<Term>& terms) {
      return one_sum(GetParam().product, start, terms, m);
    };
    EXPECT_TRUE(std::isnan(sum(0, {{5, nan, 0}})));
    EXPECT_TRUE(std::isnan(sum(nan, {})));
    EXPECT_TRUE(std::isnan(sum(0, {{7, inf, 0}})));
    EXPECT_TRUE(std::isnan(sum(0, {{7, inf, 1}, {30, -inf, 1}})));
    EXPECT_EQ(sum(0, {{31, inf, 2}}), static_cast<float>(inf));
    EXPECT_EQ(sum(1, {{0, 0x1p127, -2}}), static_cast<float>(-inf));
  }
}

// The padding that packing adds must not turn into NaN beside an infinity, nor reach a neighbour.
TEST_P(EachTable, AnInfiniteRowLeavesItsNeighboursAlone) {
  for (const i64 m : {3, 19}) {
    Case t{{m, 5, 7}};
    t.c_type = DType::bf16;
    Problem p(t, [](u64, u64) { return 1.0; });
    for (i64 k = 0; k < 7; ++k) p.a.set(1, k, std::numeric_limits<double>::infinity());
    Queue q(1);
    p.run(GetParam().product, q);
    for (i64 n = 0; n < 5; ++n) {
      EXPECT_EQ(p.c.get(0, n), 7);
      EXPECT_TRUE(std::isinf(p.c.get(1, n)));
      EXPECT_EQ(p.c.get(2, n), 7);
    }
  }
}

TEST_P(EachTable, ThreadsChangeNoBit) {
  for (const Format format : {Format::bf16, Format::f32})
    for (const i64 m : {5, 300}) {
      Case t{{m, 500, 160}, format};
      t.c_type = DType::bf16;
      std::vector<std::byte> first;
      for (const int threads : {1, 2, 4}) {
        Problem p(t, normal);
        Queue q(threads);
        p.run(GetParam().product, q);
        if (threads == 1) first = p.c.bytes;
        EXPECT_EQ(p.c.bytes, first);
      }
    }
}

TEST_P(EachTable, ASumCutAtAMultipleOf32IsTheSumInOneCall) {
  for (const Format format : {Format::bf16, Format::f32})
    for (const i64 m : {4, 40}) {
      Case t{{m, 70, 160}, format, Along::rows, Along::rows, DType::f32, true};
      Problem whole(t, normal), cut(t, normal);
      Queue q(2);
      whole.run(GetParam().product, q);
      Operand a, b;
      a.format = b.format = format;
      a.along = b.along = Along::rows;
      for (const auto& [first, count] : {std::pair<i64, i64>{0, 96}, {96, 64}}) {
        a.data = cut.a.view().slice_rows(first, count);
        b.data = cut.b.view().slice_rows(first, count);
        GetParam().product(q, cut.c.view(), a, b, {.add = true});
      }
      EXPECT_EQ(whole.c.bytes, cut.c.bytes);
    }
}

// 1 + 2^-8 lies between two BF16 numbers, and a little more than it must round up; through float
// it would be cut to the tie and round down.
TEST_P(EachTable, DoublesRoundOnceToShorterTypes) {
  Case t{{2, 2, 1}, Format::f64};
  t.c_type = DType::bf16;
  Problem p(t, [](u64 what, u64) { return what == 0 ? 1 + 0x1p-8 + 0x1p-40 : 1.0; });
  Queue q(1);
  p.run(GetParam().product, q);
  EXPECT_EQ(p.c.get(1, 1), 1 + 0x1p-7);
}

// More sums than can wait in the scratch between chunks.
TEST_P(EachTable, FewRowsOfAVeryWideMatrixAreRight) {
  Case t{{8, 600011, 1}};
  t.c_type = DType::bf16;
  expect_pinned_order(GetParam(), t, 7919);
}

INSTANTIATE_TEST_SUITE_P(Products, EachTable, testing::ValuesIn(entries()),
                         [](const auto& of) { return of.param.name; });
INSTANTIATE_TEST_SUITE_P(Products, BlockedTable, testing::ValuesIn(blocked_entries()),
                         [](const auto& of) { return of.param.name; });

}  // namespace

}  // namespace lathe::kernels
