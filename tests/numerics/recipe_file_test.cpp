#include "lathe/numerics/recipe_file.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/recipe.h"
#include "lathe/numerics/recipe_text.h"
#include "lathe/numerics/scale.h"

namespace lathe::numerics {
namespace {

Recipe read(const std::string& text) { return parse_recipe(text, "mine.toml"); }

std::string report(const std::string& text) {
  try {
    read(text);
  } catch (const Error& e) {
    return e.report();
  }
  return "no error";
}

void expect_in(const std::string& text, const std::vector<std::string>& parts) {
  const std::string r = report(text);
  for (const std::string& part : parts)
    EXPECT_NE(r.find(part), std::string::npos) << "no `" << part << "` in\n" << r << text;
}

/// A whole recipe, whose grad_w is left to say.
const std::string kHead =
    "[forward]\nx = \"mxfp8\"\nw = \"mxfp8\"\n[grad_x]\ndy = \"mxfp8\"\nw = \"mxfp8\"\n";

TEST(RecipeFile, EveryNamedRecipeReadsBackEqual) {
  for (const Recipe& r : recipes()) {
    const std::string text = to_toml(r);
    EXPECT_EQ(read(text), r) << text;
    EXPECT_EQ(to_toml(read(text)), text);
  }
}

TEST(RecipeFile, AWholeRecipeNeedsNoBase) {
  const Recipe r = read(kHead + "[grad_w]\ndy = {format = \"mxfp8\", rounding = \"stochastic\"}\n" +
                        "x = {format = \"e4m3\", scaling = \"mx\", mx_rule = \"floor\"}\n");
  EXPECT_EQ(r.name, "mine");
  EXPECT_EQ(r.activation, DType::bf16);
  EXPECT_EQ(r.residual, DType::f32);
  EXPECT_EQ(r.master, DType::f32);
  EXPECT_EQ(r.linear.forward, recipe("mxfp8").linear.forward);
  EXPECT_EQ(r.linear.grad_w.a.rounding, Tie::stochastic);
  EXPECT_EQ(r.linear.grad_w.b.mx_rule, MxRule::floor);
  EXPECT_EQ(r.scores, recipe("bf16").scores);
  EXPECT_EQ(r.values, recipe("bf16").values);
  EXPECT_TRUE(r.overrides.empty());
}

TEST(RecipeFile, ATableWithoutAFormatChangesOnlyTheKeysItHas) {
  const Recipe r = read("base = \"nvfp4\"\n[grad_w]\ndy = {rounding = \"even\"}\n");
  Recipe expected = recipe("nvfp4");
  expected.linear.grad_w.a.rounding = Tie::even;
  expected.name = "mine";
  expected.about = "nvfp4 with changes";
  EXPECT_EQ(r, expected);
}

TEST(RecipeFile, ATableWithAFormatStartsAfresh) {
  const Recipe r = read("base = \"nvfp4\"\n[grad_x]\ndy = {format = \"mxfp4\"}\nw = \"mxfp8\"\n");
  EXPECT_EQ(r.linear.grad_x.a, (Encoding{.format = Format::e2m1, .scaling = Scaling::mx}));
  EXPECT_EQ(r.linear.grad_x.b, (Encoding{.format = Format::e4m3, .scaling = Scaling::mx}));
}

TEST(RecipeFile, AnotherScalingForgetsWhatBelongedToTheOldOne) {
  const Recipe r = read("base = \"fp8-deepseek\"\n[forward]\nw = {scaling = \"row\"}\n");
  EXPECT_EQ(r.linear.forward.b, (Encoding{.format = Format::e4m3, .scaling = Scaling::row}));
}

TEST(RecipeFile, UsualNamesStandForAFormatAndItsScaling) {
  const auto x = [](const std::string& name) {
    return read("base = \"bf16\"\n[forward]\nx = \"" + name + "\"\n").linear.forward.a;
  };
  EXPECT_EQ(x("int8"), recipe("int8").linear.forward.a);
  EXPECT_EQ(x("nvfp4"), recipe("nvfp4").linear.forward.a);
  EXPECT_EQ(x("hif4"), recipe("hif4").linear.forward.a);
  EXPECT_EQ(x("mxint8"), (Encoding{.format = Format::mxint8, .scaling = Scaling::mx}));
  EXPECT_EQ(x("mxfp6e3m2"), (Encoding{.format = Format::e3m2, .scaling = Scaling::mx}));
  EXPECT_EQ(x("e5m2"), (Encoding{.format = Format::e5m2}));
  EXPECT_EQ(x("hif8"), (Encoding{.format = Format::hif8, .rounding = Tie::away}));
}

TEST(RecipeFile, OverridesKeepTheOrderOfTheFile) {
  const Recipe r = read(
      "base = \"bf16\"\n[override.zebra]\nrecipe = \"mxfp8\"\n"
      "[override.ant]\nmatch = \"*.mlp.down\"\nfirst_blocks = 2\nlast_share = 0.25\nfrom = 0.1\n"
      "until = 0.5\ngrad_w.dy = \"mxfp4\"\n");
  ASSERT_EQ(r.overrides.size(), 2U);
  EXPECT_EQ(r.overrides[0].name, "zebra");
  EXPECT_EQ(r.overrides[0].match, "*");
  EXPECT_EQ(r.overrides[0].products, recipe("mxfp8").linear);
  const Override& o = r.overrides[1];
  EXPECT_EQ(o.match, "*.mlp.down");
  EXPECT_EQ(o.first_blocks, 2);
  EXPECT_EQ(o.last_share, 0.25);
  EXPECT_EQ(o.from, 0.1);
  EXPECT_EQ(o.until, 0.5);
  EXPECT_EQ(o.products.forward, r.linear.forward);
  EXPECT_EQ(o.products.grad_w.a, (Encoding{.format = Format::e2m1, .scaling = Scaling::mx}));
}

TEST(RecipeFile, OverridesKeepTheirOrderHoweverTheyAreWritten) {
  for (const char* text :
       {"base = \"bf16\"\noverride.z.recipe = \"fp32\"\noverride.a.recipe = \"mxfp8\"\n",
        "base = \"bf16\"\n[override.z.forward]\nx = \"mxfp8\"\n[override.a]\nrecipe = \"bf16\"\n",
        "base = \"bf16\"\n[override]\nz.recipe = \"fp32\"\na = {recipe = \"mxfp8\"}\n"}) {
    const Recipe r = read(text);
    ASSERT_EQ(r.overrides.size(), 2U) << text;
    EXPECT_EQ(r.overrides[0].name, "z") << text;
  }
}

TEST(RecipeFile, OverridesOfTheBaseCanBeChangedAndLeftOut) {
  const Recipe r = read(
      "base = \"nvfp4\"\n[override.last-blocks]\nlast_share = 0.5\n"
      "[override.end-of-run]\nremove = true\n");
  Recipe expected = recipe("nvfp4");
  expected.overrides.pop_back();
  expected.overrides.back().last_share = 0.5;
  EXPECT_EQ(r.overrides, expected.overrides);
  expect_in("base = \"bf16\"\n[override.head]\nremove = true\n",
            {"override.head.remove: there is none", "mine.toml:3"});
}

TEST(RecipeFile, EverythingThatCanBeSetIsPrintedAndReadBack) {
  const Recipe r = read(
      "name = \"odd \\\"one\\\"\"\nbase = \"fp8-hybrid-delayed\"\nactivation = \"fp32\"\n"
      "residual = \"bf16\"\n"
      "[forward]\nx = {format = \"e4m3\", scaling = \"tile\", power_of_two = true}\n"
      "w = {format = \"e2m1\", scaling = \"mx\", square = true, mx_rule = \"ceil\"}\n"
      "[grad_x]\ndy = {format = \"e2m1\", scaling = \"nvfp4\", hadamard = 32, head_room = 0.9}\n"
      "w = {format = \"e3m2\", scaling = \"mx\", hadamard = 32}\n"
      "[attention]\nq = \"mxfp8\"\nv = {format = \"e4m3\", scaling = \"mx\"}\n"
      "[delayed]\nhistory = 16\nmargin = 1\nmost_recent = true\n"
      "[loss_scale]\ninitial = 1024\nwindow = 7\n"
      "[override.late]\nmatch = \"layers.*\"\nfrom = 0.3333333333333333\nforward.x = \"hif8\"\n");
  EXPECT_EQ(r.delayed, (DelayedOptions{.history = 16, .margin = 1, .most_recent = true}));
  EXPECT_EQ(r.loss_scale, (LossScale{.initial = 1024, .window = 7}));
  EXPECT_EQ(r.linear.grad_x.a.head_room, 0.9F);
  EXPECT_EQ(parse_recipe(to_toml(r), "recipe.toml"), r) << to_toml(r);
}

TEST(RecipeFile, AMissingOperandIsNamed) {
  EXPECT_EQ(report(kHead + "[grad_w]\ndy = \"mxfp8\"\n"),
            "error: grad_w.x is missing: a recipe says all operands of its three products\n"
            "  --> mine.toml:7\n"
            "  hint: write x = {format = \"bf16\"} in [grad_w], or start from a named recipe: "
            "base = \"bf16\"\n");
  expect_in(kHead, {"grad_w.dy is missing", "--> mine.toml\n"});
  expect_in("", {"forward.x is missing"});
  expect_in(kHead + "[grad_w]\ndy = {rounding = \"even\"}\nx = \"mxfp8\"\n",
            {"grad_w.dy names no format", "mine.toml:8"});
}

TEST(RecipeFile, UnknownWordsSuggestTheNearest) {
  const std::string base = "base = \"mxfp8\"\n[grad_w]\n";
  expect_in(base + "dy = {format = \"e4m2\"}\n",
            {"grad_w.dy.format", "e4m2", "mine.toml:3", "did you mean \"e4m3\"?"});
  expect_in(base + "dy = \"mxpf8\"\n", {"grad_w.dy must be one of", "did you mean \"mxfp8\"?"});
  expect_in(base + "dy = {scaling = \"tiles\"}\n", {"mine.toml:3", "did you mean \"tile\"?"});
  expect_in(base + "dy = {rounding = \"stocastic\"}\n", {"did you mean \"stochastic\"?"});
  expect_in(base + "dy = {mx_rule = \"roundup\"}\n", {"did you mean \"round_up\"?"});
  expect_in(base + "dy = {hadamrd = 16}\n",
            {"there is no key grad_w.dy.hadamrd", "did you mean grad_w.dy.hadamard?"});
  expect_in("base = \"mxfp9\"\n", {"mine.toml:1", "did you mean \"mxfp8\"?"});
  expect_in("base = \"mxfp8\"\n[grad_y]\n", {"no section [grad_y]", "mine.toml:2"});
  expect_in("base = \"bf16\"\n[override.a]\nrecipe = \"mxfp88\"\n", {"did you mean \"mxfp8\"?"});
  expect_in("base = \"bf16\"\nqqqqqqqqqqqq = 1\n", {"docs/recipes.md lists every key"});
}

TEST(RecipeFile, ScalesAreNoElements) {
  const std::string base = "base = \"mxfp8\"\n[grad_w]\n";
  expect_in(base + "dy = {format = \"e8m0\"}\n",
            {"grad_w.dy.format = \"e8m0\" is a scale, not an element", "mine.toml:3"});
  expect_in(base + "x = \"e6m2\"\n",
            {"grad_w.x = \"e6m2\" is a scale, not an element", "\"hif4\""});
}

TEST(RecipeFile, ScalingsFitTheirFormats) {
  const auto operand = [](const std::string& table) {
    return "base = \"bf16\"\n[forward]\nx = {" + table + "}\n";
  };
  expect_in(
      operand("format = \"e4m3\", scaling = \"nvfp4\""),
      {"forward.x.format = \"e4m3\" cannot be scaled by \"nvfp4\"", "mine.toml:3", "\"tile\""});
  for (const char* bad :
       {"format = \"e5m2\", scaling = \"tile\"", "format = \"bf16\", scaling = \"current\"",
        "format = \"e4m3\", scaling = \"shift\"", "format = \"hif8\", scaling = \"mx\"",
        "format = \"e4m3fnuz\", scaling = \"mx\"", "format = \"e2m1\", scaling = \"none\"",
        "format = \"e2m3\", scaling = \"none\"", "format = \"e2m1\", scaling = \"hif4\""})
    expect_in(operand(bad), {"cannot be scaled by"});
  expect_in(operand("format = \"e2m1\""), {"needs a scaling", "nvfp4"});
  expect_in("base = \"bf16\"\n[forward]\nx = \"e2m1\"\n", {"needs a scaling"});
  expect_in(operand("format = \"hif4\", scaling = \"mx\""), {"is not that of \"hif4\""});
  expect_in(operand("format = \"mxfp8\", scaling = \"tile\""),
            {"forward.x.scaling = \"tile\" is not that of \"mxfp8\"", "format = \"e4m3\""});
  expect_in(operand("format = \"mxint8\", scaling = \"row\""), {"no error"});
}

TEST(RecipeFile, PartsOfAnOperandFitOneAnother) {
  const auto refused = [](const std::string& table, const std::string& what) {
    expect_in("base = \"bf16\"\n[forward]\nx = {" + table + "}\n", {what, "mine.toml:3"});
  };
  refused("format = \"mxfp8\", hadamard = 48", "hadamard = 48 is no order of a transform");
  refused("format = \"mxfp8\", hadamard = -16", "is no order");
  refused("format = \"mxfp4\", hadamard = 16", "smaller than the 32 elements that share a scale");
  refused("format = \"e4m3\", scaling = \"tile\", hadamard = 64", "smaller than the 128 elements");
  refused("format = \"mxfp4\", hadamard = 64",
          "forward.x.hadamard = 64 and forward.w.hadamard = 0");
  refused("format = \"mxfp8\", head_room = 0", "must be above 0 and at most 1");
  refused("format = \"mxfp8\", head_room = 1.5", "must be above 0 and at most 1");
  refused("format = \"mxfp8\", head_room = nan", "must be");
  refused("format = \"mxfp8\", power_of_two = true", "does not go with scaling \"mx\"");
  refused("format = \"hif8\", square = true", "square is for blocks");
  refused("format = \"nvfp4\", mx_rule = \"floor\"", "mx_rule is for scaling \"mx\"");
  refused("format = \"hif8\", rounding = \"hybrid\"", "\"hybrid\" is for single values");
  refused("format = \"hif4\", rounding = \"even\"", "is not HiF4's");
  refused("format = \"fp32\", rounding = \"stochastic\"", "nothing is rounded");
  refused("format = \"fp16\"", "no product takes both");
  refused("format = \"fp64\"", "no product takes both");
  refused("format = 8", "must be text in quotes");
  refused("format = \"mxfp8\", hadamard = 16.0", "must be a whole number");
}

TEST(RecipeFile, DoublesStandAlone) {
  expect_in("base = \"fp64\"\n[attention]\nq = \"bf16\"\nk = \"bf16\"\n",
            {"a recipe of its own", "mine.toml:3"});
  expect_in("base = \"fp64\"\nactivation = \"bf16\"\n", {"activation = \"bf16\"", "use \"fp64\""});
  expect_in("base = \"bf16\"\nresidual = \"fp64\"\n", {"residual = \"fp64\"", "mine.toml:2"});
  expect_in("base = \"bf16\"\n[override.x]\nrecipe = \"fp64\"\n", {"a recipe of its own"});
}

TEST(RecipeFile, AttentionTakesNeitherTransformsNorHistories) {
  const std::string base = "base = \"bf16\"\n[attention]\n";
  expect_in(
      base + "q = {format = \"mxfp8\", hadamard = 32}\nk = {format = \"mxfp8\", hadamard = 32}\n",
      {"attention takes no transform", "mine.toml:3"});
  expect_in(base + "v = {format = \"e4m3\", scaling = \"delayed\"}\n",
            {"keeps no scales beside the elements", "mine.toml:3", "\"mx\""});
}

TEST(RecipeFile, AttentionsWeightsAreCheckedLikeOtherOperands) {
  const auto with = [](const std::string& p, const std::string& v = "\"bf16\"") {
    return "base = \"bf16\"\n[attention]\np = {" + p + "}\nv = " + v + "\n";
  };
  for (const char* wide : {"fp32", "tf32", "bf16", "fp16"})
    for (const char* v : {"\"bf16\"", "\"fp32\""})
      expect_in(with(std::string("format = \"") + wide + "\", scaling = \"shift\"", v),
                {"attention.p.format", "cannot be scaled by \"shift\"", "mine.toml:3",
                 "leave scaling out"});
  const std::string shifted = "scaling = \"shift\", ";
  expect_in(with(shifted + "format = \"hif8\", rounding = \"hybrid\""),
            {"attention.p.rounding = \"hybrid\" is for single values", "mine.toml:3"});
  expect_in(with(shifted + "format = \"e4m3\", mx_rule = \"floor\""), {"mx_rule is for"});
  expect_in(with(shifted + "format = \"e4m3\", square = true"), {"square is for blocks"});
  expect_in(with(shifted + "format = \"hif8\", rounding = \"stochastic\""),
            {"weights are rounded to nearest"});
  expect_in(with(shifted + "format = \"e4m3\"", "\"fp32\""), {"no product takes both"});
  expect_in(with("format = \"fp16\""), {"no product takes both"});
  for (const char* f : {"e4m3", "e5m2", "e4m3fnuz", "e5m2fnuz", "e2m3", "e3m2", "e2m1", "mxint8"})
    for (const char* tie : {"even", "away"})
      expect_in(with(shifted + "format = \"" + f + "\", rounding = \"" + tie + "\""), {"no error"});
  expect_in(with(shifted + "format = \"hif8\", rounding = \"even\""), {"no error"});
}

TEST(RecipeFile, AttentionsProductsAreOfOneKind) {
  expect_in("base = \"bf16\"\n[attention]\np = \"fp32\"\nv = \"fp32\"\n",
            {"attention.k is \"bf16\" and attention.v is \"fp32\"", "mine.toml:4"});
  expect_in(
      "base = \"bf16\"\nactivation = \"fp32\"\n[attention]\nq = \"fp32\"\nk = \"fp16\"\n"
      "p = \"tf32\"\nv = \"fp32\"\n",
      {"no error"});
}

TEST(RecipeFile, StateThatCannotWorkIsRefused) {
  const std::string base = "base = \"fp8-hybrid-delayed\"\n";
  EXPECT_EQ(report(base + "[delayed]\nhistory = 0\n"),
            "error: delayed.history = 0 must be between 1 and 1048576\n  --> mine.toml:3\n");
  expect_in(base + "[delayed]\nmargin = -1\n", {"delayed.margin"});
  expect_in(base + "[loss_scale]\ninitial = 1000\n", {"no power of two", "mine.toml:3"});
  expect_in(base + "[loss_scale]\ninitial = 0\n", {"loss_scale.initial"});
  expect_in(base + "[loss_scale]\nwindow = -1\n", {"loss_scale.window"});
}

TEST(RecipeFile, LevelsThatCannotBeChosenFromAreRefused) {
  const auto levels = [](const std::string& list) {
    return "base = \"bf16\"\n[adaptive]\nlevels = \"" + list + "\"\n";
  };
  expect_in(levels("fp8-hybrid-delayed, bf16"), {"scales by the steps before", "mine.toml:3"});
  expect_in(levels("adaptive, bf16"), {"adapts itself", "mine.toml:3"});
  expect_in(levels("mxfp8, mxfp8, bf16"), {"names \"mxfp8\" twice", "mine.toml:3"});
}

TEST(RecipeFile, OverridesThatNeverHoldAreRefused) {
  const std::string base = "base = \"mxfp8\"\n[override.late]\n";
  expect_in(base + "recipe = \"bf16\"\nfrom = 0.9\nuntil = 0.8\n",
            {"from = 0.9 is not before until = 0.8", "mine.toml:4"});
  expect_in(base + "recipe = \"bf16\"\nuntil = 0\n", {"is not before until = 0", "mine.toml:4"});
  expect_in(base + "recipe = \"bf16\"\nfrom = 1.5\n", {"override.late.from = 1.5"});
  expect_in(base + "recipe = \"bf16\"\nmatch = \"\"\n", {"match is empty"});
  expect_in(base, {"override.late changes nothing", "mine.toml:2"});
  for (const char* key : {"first_blocks = 0", "last_blocks = 0", "last_share = 0.0"})
    expect_in(base + "recipe = \"bf16\"\n" + key + "\n", {"override.late", "mine.toml:4"});
  expect_in("base = \"mxfp8\"\n[override.\"a b\"]\nrecipe = \"bf16\"\n",
            {"cannot be called \"a b\""});
  expect_in("base = \"mxfp8\"\noverride = {b = {recipe = \"bf16\"}, a = {recipe = \"fp32\"}}\n",
            {"two overrides on one line"});
}

TEST(RecipeFile, ResultsKeysChangeWithEveryOperandAndNotWithWords) {
  const auto keys = [](const std::string& text) { return results_keys(read(text)); };
  const std::string base = "base = \"nvfp4\"\n";
  EXPECT_EQ(keys(base), keys("name = \"x\"\nabout = \"y\"\nsource = \"z\"\n" + base));
  EXPECT_EQ(keys(base), keys(base + "[delayed]\nhistory = 3\n"));  // nothing reads it
  for (const char* change :
       {"[forward]\nx = {square = true}\n", "[grad_x]\nw = {square = false}\n",
        "[grad_w]\ndy = {rounding = \"even\"}\n", "activation = \"fp32\"\n",
        "[attention]\nk = \"mxfp8\"\n", "[loss_scale]\ninitial = 2\n",
        "[override.head]\nmatch = \"*\"\n", "[override.end-of-run]\nfrom = 0.83\n",
        "[override.late]\nfrom = 0.9\nrecipe = \"fp32\"\n"})
    EXPECT_NE(keys(base), keys(base + change)) << change;
}

TEST(RecipeFile, WithAnyCharacterChangedItIsRefusedOrReadsBackEqual) {
  const std::string whole = to_toml(recipe("nvfp4")) + "[delayed]\nhistory = 8\n";
  int read_well = 0, refused = 0;
  for (std::size_t i = 0; i < whole.size(); ++i)
    for (const std::size_t turn : {0, 3}) {
      static constexpr std::array kOther{"", ".", "9", "\"", "{", "e", "\n"};
      const char* other = kOther.at((i + turn) % kOther.size());
      const std::string text = whole.substr(0, i) + other + whole.substr(i + 1);
      try {
        const Recipe r = read(text);
        ASSERT_EQ(read(to_toml(r)), r) << text;
        ++read_well;
      } catch (const Error& e) {
        ASSERT_TRUE(e.where().starts_with("mine.toml")) << e.report() << text;
        ++refused;
      }
    }
  EXPECT_GT(read_well, 50);
  EXPECT_GT(refused, 500);
}

TEST(RecipeFile, ThePageListsEveryNamedRecipeAndItsExampleReads) {
  const std::string page = read_file("docs/recipes.md");
  for (const std::string& name : recipe_names())
    EXPECT_NE(page.find("| `" + name + "` |"), std::string::npos) << name;
  const std::size_t begin = page.find("```toml\n") + 8;
  const Recipe r = read(page.substr(begin, page.find("```", begin) - begin));
  EXPECT_EQ(r.linear.grad_x.a, recipe("nvfp4").linear.forward.a);
  EXPECT_EQ(r.overrides.back().match, "layers.*.mlp.down");
}

TEST(RecipeFile, AFileThatIsNotThereSaysWhichRecipesHaveNames) {
  try {
    read_recipe("no/such/recipe.toml");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(e.report().find("--> no/such/recipe.toml"), std::string::npos);
    EXPECT_NE(e.hint().find("mxfp8"), std::string::npos);
  }
}

}  // namespace
}  // namespace lathe::numerics
