#include "lathe/parallel/params.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/recipe.h"

namespace lathe::parallel {
namespace {

std::vector<ParamSpec> specs() {
  return {{"table", 8, 16, Role::embedding, Shard::rows, 0.1, true},
          {"tied", 8, 16, Role::embedding, Shard::rows, 0.1},
          {"matrix", 24, 16, Role::matrix, Shard::rows, 0.1},
          {"gain", 1, 16, Role::gain},
          {"bias", 1, 16, Role::bias}};
}

TEST(ParamSet, CopiesForProductsOnlyWhatProductsRead) {
  Arena weights("weights", 1 << 20);
  ParamSet p(specs(), numerics::recipe("bf16"), weights, nullptr);
  EXPECT_TRUE(p.at("table").work.data.empty());
  EXPECT_EQ(p.at("tied").work.data.type, DType::bf16);
  EXPECT_EQ(p.at("matrix").work.data.type, DType::bf16);
  EXPECT_TRUE(p.at("gain").work.data.empty());
  EXPECT_TRUE(p.at("matrix").grad.empty());

  ParamSet plain(specs(), numerics::recipe("fp32"), weights, nullptr);
  EXPECT_EQ(plain.at("matrix").work.data.data, plain.at("matrix").master.data);
}

TEST(ParamSet, StoresInBf16WhatItIsToldTo) {
  Arena weights("weights", 1 << 20), grads("gradients", 1 << 20);
  ParamSet p(specs(), numerics::recipe("bf16"), weights, &grads,
             {.bf16_weights = true, .bf16_gradients = true});
  for (const char* name : {"table", "tied", "matrix"})
    EXPECT_EQ(p.at(name).master.type, DType::bf16) << name;
  EXPECT_EQ(p.at("matrix").work.data.data, p.at("matrix").master.data)
      << "products read it as it is";
  EXPECT_EQ(p.at("gain").master.type, DType::f32);
  EXPECT_EQ(p.at("matrix").grad.type, DType::bf16);
  EXPECT_EQ(p.at("tied").grad.type, DType::bf16);
  EXPECT_EQ(p.at("table").grad.type, DType::f32) << "summed row by row, never by a product";
  EXPECT_EQ(p.at("bias").grad.type, DType::f32);

  p.init(3);
  const Rng rng{3, Draw::init, stream_of("matrix")};
  for (i64 i = 0; i < 24 * 16; ++i)
    EXPECT_EQ(p.at("matrix").master.row<bf16>(0)[i].bits,
              kernels::to_bf16(0.1 * rng.normal(static_cast<u64>(i))).bits)
        << "rounded once";
}

TEST(ParamSet, ADrySetAsksForTheSameBytes) {
  Arena weights("weights", 1 << 20), grads("gradients", 1 << 20);
  Arena dry_weights("weights"), dry_grads("gradients");
  ParamSet p(specs(), numerics::recipe("bf16"), weights, &grads);
  ParamSet dry(specs(), numerics::recipe("bf16"), dry_weights, &dry_grads);
  EXPECT_EQ(dry_weights.peak(), weights.peak());
  EXPECT_EQ(dry_grads.peak(), grads.peak());
  EXPECT_EQ(dry.elements(), 8 * 16 * 2 + 24 * 16 + 2 * 16);
  dry.init(1);
  Queue q(0);
  dry.refresh_work(q, kernels::dry());
  dry.zero_grads(q, kernels::dry());
}

TEST(ParamSet, InitDependsOnSeedNameAndElementAlone) {
  Arena weights("weights", 1 << 20);
  ParamSet a(specs(), numerics::recipe("fp32"), weights, nullptr);
  ParamSet other_order({{"matrix", 24, 16, Role::matrix, Shard::none, 0.1}},
                       numerics::recipe("fp64"), weights, nullptr);
  ParamSet other_seed({{"matrix", 24, 16, Role::matrix, Shard::none, 0.1}},
                      numerics::recipe("fp32"), weights, nullptr);
  a.init(3);
  other_order.init(3);
  other_seed.init(4);
  int same = 0;
  for (i64 i = 0; i < 24 * 16; ++i) {
    const float x = a.at("matrix").master.row<float>(0)[i];
    EXPECT_EQ(x, static_cast<float>(other_order.at("matrix").master.row<double>(0)[i]));
    same += x == other_seed.at("matrix").master.row<float>(0)[i];
  }
  EXPECT_LT(same, 4);
  EXPECT_NE(a.at("table").master.row<float>(0)[0], a.at("tied").master.row<float>(0)[0]);
}

TEST(ParamSet, GainsStartAtOneAndBiasesAtZero) {
  Arena weights("weights", 1 << 20);
  ParamSet p(specs(), numerics::recipe("fp32"), weights, nullptr);
  p.init(3);
  for (i64 i = 0; i < 16; ++i) {
    EXPECT_EQ(p.at("gain").master.row<float>(0)[i], 1);
    EXPECT_EQ(p.at("bias").master.row<float>(0)[i], 0);
  }
}

// Large enough to be cut up between threads: mean and deviation of n normal numbers miss by more
// than six of their own deviations once in 10^9.
TEST(ParamSet, InitialWeightsHaveTheDeviationAskedFor) {
  constexpr i64 kRows = 3000, kCols = 1000;
  Arena weights("weights", kRows * kCols * 4);
  ParamSet p({{"matrix", kRows, kCols, Role::matrix, Shard::none, 0.02}}, numerics::recipe("fp32"),
             weights, nullptr);
  p.init(3);
  double sum = 0, squares = 0;
  for (i64 i = 0; i < kRows * kCols; ++i) {
    const double x = static_cast<double>(p[0].master.row<float>(0)[i]);
    sum += x;
    squares += x * x;
  }
  constexpr double kN = static_cast<double>(kRows * kCols);
  EXPECT_NEAR(sum / kN, 0, 6 * 0.02 / std::sqrt(kN));
  EXPECT_NEAR(std::sqrt(squares / kN), 0.02, 6 * 0.02 / std::sqrt(2 * kN));
}

TEST(ParamSet, ACopyServesBothProductsOnlyWithScalesThatDo) {
  const auto copies = [](const numerics::Encoding& e) {
    numerics::Recipe r = numerics::recipe("bf16");
    r.linear.forward.b = r.linear.grad_x.b = e;
    Arena weights("weights", 1 << 20);
    const ParamSet p({{"matrix", 24, 300, Role::matrix, Shard::none, 0.1}}, r, weights, nullptr);
    const Param& x = *p.find("matrix");
    return x.work.data.data == x.work_back.data.data ? 1 : 2;
  };
  using numerics::Format;
  using numerics::Scaling;
  EXPECT_EQ(copies({.format = Format::e4m3, .scaling = Scaling::current}), 1);
  EXPECT_EQ(copies({.format = Format::e2m1, .scaling = Scaling::nvfp4, .square = true}), 1);
  EXPECT_EQ(copies({.format = Format::e4m3, .scaling = Scaling::mx}), 2);
  // Scales of 128 elements of one sum are none of the other: 300 columns, 24 rows.
  EXPECT_EQ(copies({.format = Format::e4m3, .scaling = Scaling::tile, .square = true}), 2);
  EXPECT_EQ(copies({.format = Format::e4m3, .head_room = 0.75F}), 2);
}

}  // namespace
}  // namespace lathe::parallel
