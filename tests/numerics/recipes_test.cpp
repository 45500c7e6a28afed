// The named recipes: what their papers publish, written down a second time.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/recipe.h"
#include "lathe/numerics/scale.h"

namespace lathe::numerics {
namespace {

std::vector<Encoding> linear_operands(const Recipe& r) {
  const Products& p = r.linear;
  return {p.forward.a, p.forward.b, p.grad_x.a, p.grad_x.b, p.grad_w.a, p.grad_w.b};
}

bool is_plain(const Recipe& r) {
  return r.name == "fp32" || r.name == "tf32" || r.name == "bf16" || r.name == "fp16" ||
         r.name == "fp64";
}

TEST(NamedRecipes, AreTheOnesAsked) {
  const std::vector<std::string> wanted{"fp32",
                                        "tf32",
                                        "bf16",
                                        "fp16",
                                        "fp8-hybrid-current",
                                        "fp8-hybrid-delayed",
                                        "fp8-e4m3-tensor",
                                        "fp8-deepseek",
                                        "mxfp8",
                                        "mxfp6",
                                        "mxfp4",
                                        "nvfp4",
                                        "hif8",
                                        "hif4",
                                        "int8",
                                        "adaptive",
                                        "fp64"};
  EXPECT_EQ(recipe_names(), wanted);
}

TEST(NamedRecipes, EachNamesWhoPublishedIt) {
  for (const Recipe& r : recipes()) EXPECT_FALSE(r.source.empty()) << r.name;
}

TEST(NamedRecipes, TheHeadAndAttentionStayInBf16WhereLinearLayersDoNot) {
  for (const Recipe& r : recipes()) {
    if (is_plain(r)) continue;
    const Products& head =
        products_of(r, {.name = "embed.token", .head = true, .block = -1, .blocks = 12}, 1, 100);
    EXPECT_EQ(head, recipe("bf16").linear) << r.name;
    EXPECT_EQ(r.scores, recipe("bf16").scores) << r.name;
    EXPECT_EQ(r.values, recipe("bf16").values) << r.name;
    EXPECT_EQ(r.activation, DType::bf16) << r.name;
    EXPECT_EQ(r.master, DType::f32) << r.name;
  }
}

TEST(NamedRecipes, ThoseWithoutABf16StorageTypeKeepActivationsInF32) {
  for (const char* name : {"fp16", "tf32"}) {
    EXPECT_EQ(recipe(name).activation, DType::f32);
    EXPECT_TRUE(recipe(name).overrides.empty());
  }
  EXPECT_EQ(recipe("fp16").loss_scale, (LossScale{.initial = 64, .window = 2000}));
  for (const Recipe& r : recipes()) EXPECT_EQ(r.loss_scale == LossScale{}, r.name != "fp16");
}

TEST(NamedRecipes, OnlyGradientsOfTheHybridsAreE5m2) {
  for (const char* name : {"fp8-hybrid-current", "fp8-hybrid-delayed"}) {
    const Products& p = recipe(name).linear;
    EXPECT_EQ(p.forward.a.format, Format::e4m3);
    EXPECT_EQ(p.grad_x.a.format, Format::e5m2);
    EXPECT_EQ(p.grad_w.a.format, Format::e5m2);
    EXPECT_EQ(p.grad_w.b, p.forward.a);
    EXPECT_EQ(p.grad_x.b, p.forward.b);
  }
  EXPECT_EQ(recipe("fp8-hybrid-delayed").delayed, DelayedOptions{});  // TransformerEngine's
}

TEST(NamedRecipes, DeepSeekScalesWeightsBySquaresAndTheRestByRows) {
  const Products& p = recipe("fp8-deepseek").linear;
  EXPECT_TRUE(p.forward.b.square && p.grad_x.b.square);
  EXPECT_FALSE(p.forward.a.square || p.grad_x.a.square || p.grad_w.a.square || p.grad_w.b.square);
  for (const Encoding& e : linear_operands(recipe("fp8-deepseek"))) {
    EXPECT_EQ(e.format, Format::e4m3);
    EXPECT_EQ(block_size(e), 128);
  }
}

TEST(NamedRecipes, TransformsAndStochasticRoundingAreWhereThePapersHaveThem) {
  const Products& nv = recipe("nvfp4").linear;
  EXPECT_EQ(
      nv.forward.a.hadamard + nv.forward.b.hadamard + nv.grad_x.a.hadamard + nv.grad_x.b.hadamard,
      0);
  EXPECT_EQ(nv.grad_w.a.hadamard, 16);
  for (const char* name : {"nvfp4", "mxfp4", "hif4"}) {
    const Products& p = recipe(name).linear;
    EXPECT_EQ(p.grad_x.a.rounding, Tie::stochastic) << name;
    EXPECT_EQ(p.grad_w.a.rounding, Tie::stochastic) << name;
    for (const Encoding& e : {p.forward.a, p.forward.b, p.grad_x.b, p.grad_w.b})
      EXPECT_NE(e.rounding, Tie::stochastic) << name;
  }
}

TEST(NamedRecipes, BothOperandsOfAProductTakeTheSameTransform) {
  for (const Recipe& r : recipes())
    for (const Product& p :
         {r.linear.forward, r.linear.grad_x, r.linear.grad_w, r.scores, r.values})
      EXPECT_EQ(p.a.hadamard, p.b.hadamard) << r.name;
}

TEST(NamedRecipes, Nvfp4KeepsTheLastBlocksAndTheLastStepsInBf16) {
  const Recipe& r = recipe("nvfp4");
  const auto low = [&](i64 block, i64 blocks, i64 step) {
    return products_of(r, {"layers." + std::to_string(block) + ".attn.out", false, block, blocks},
                       step, 1000) == r.linear;
  };
  for (const auto& [blocks, high] : {std::pair<i64, i64>{1, 1}, {4, 1}, {12, 2}, {24, 4}, {62, 9}})
    for (i64 b = 0; b < blocks; ++b) EXPECT_EQ(low(b, blocks, 1), b < blocks - high) << blocks;
  EXPECT_TRUE(low(0, 12, 820));
  EXPECT_FALSE(low(0, 12, 821));
}

TEST(NamedRecipes, StochasticMxfp4StaysWithinRange) {
  const Encoding dy = recipe("mxfp4").linear.grad_w.a;
  for (double amax = 1; amax < 16; amax = std::nextafter(amax * 1.01, 100)) {
    const u8 scale = mx_scale(dy.mx_rule, dy.format, static_cast<float>(amax));
    const double top = amax * double{dy.head_room} / decode(Format::e8m0, scale);
    EXPECT_LE(top, info(dy.format).largest) << amax;
  }
}

TEST(NamedRecipes, Int8IsTheWholeNumbersOfARowScaledTo127) {
  const Encoding e = recipe("int8").linear.forward.a;
  for (const float amax : {1.0F, 0.3F, 7.7F, 1e-20F, 3e20F})
    for (int i = -200; i <= 200; ++i) {
      const float x = amax * static_cast<float>(i) / 200.0F;
      const float scaled = x * current_scale(e.format, amax);
      const double code = decode(e.format, encode(e.format, double{scaled}, {.tie = e.rounding}));
      const double whole = std::nearbyint(double{x * (127.0F / amax)});
      EXPECT_EQ(code * 64, whole) << x << " of " << amax;
    }
}

TEST(NamedRecipes, OnlyTheLocalOnesKeepTheirBitsWhenMicroBatchesAreCut) {
  for (const Recipe& r : recipes()) {
    const bool spans = r.name.starts_with("fp8-hybrid") || r.name == "fp8-e4m3-tensor" ||
                       r.name == "nvfp4" || r.name == "hif8" || r.name == "int8" ||
                       r.name == "adaptive";
    EXPECT_EQ(spans_micro_batch(r), spans) << r.name;
  }
}

TEST(Override, AStarInAMatchStandsForAnything) {
  const auto hits = [](const std::string& match, const std::string& name) {
    Override o;
    o.match = match;
    return matches(o, {.name = name});
  };
  EXPECT_TRUE(hits("*", "layers.0.attn.qkv"));
  EXPECT_TRUE(hits("layers.*.mlp.*", "layers.11.mlp.gate_up"));
  EXPECT_TRUE(hits("*.out", "layers.0.attn.out"));
  EXPECT_TRUE(hits("norm**", "norm"));
  EXPECT_FALSE(hits("layers.*.mlp", "layers.11.mlp.down"));
  EXPECT_FALSE(hits("layers", "layers.0"));
  EXPECT_FALSE(hits("", "layers.0"));
  EXPECT_FALSE(hits(std::string("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b"), std::string(200, 'a')));
}

}  // namespace
}  // namespace lathe::numerics
