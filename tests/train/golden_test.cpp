// Losses of twenty steps of the smallest models, to the bit. A change here is a change of what
// every run computes: explain it in the commit that makes it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lathe/base/file.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/data/loader.h"
#include "lathe/kernels/kernels.h"
#include "lathe/numerics/recipe.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"
#include "lathe/train/step.h"
#include "tests/train/tiny_run.h"

namespace lathe::train {
namespace {

constexpr const char* kGolden = "tests/golden/losses.json";

struct Case {
  const char* name;
  std::vector<std::string> keys;
};

/// Whole blocks of every recipe, and its last part within the twenty steps.
std::vector<std::string> keys_of(const std::string& recipe) {
  return {"train.recipe=" + recipe, "train.steps=20", "model.width=128",
          "model.hidden=128",       "model.heads=4",  "model.kv_heads=2"};
}

std::vector<double> losses(const std::vector<std::string>& keys) {
  const RunConfig c = tiny_run("unused", keys);
  Queue q(2);
  Arenas memory = Arenas::backed(measure(c));
  const data::Loader loader(c.data.shards, data::Loader::Part::train, c.model.context,
                            c.model.known(), 1);
  Trainer t(c, kernels::select("auto"), q, memory);
  t.init();
  std::vector<double> all;
  for (i64 n = 1; n <= 20; ++n) all.push_back(t.step(n, &loader).loss.mean());
  return all;
}

void check(const std::string& name, const std::vector<std::string>& keys) {
  const std::vector<double> now = losses(keys);
  const auto file = nlohmann::json::parse(read_file(kGolden));
  ASSERT_TRUE(file.contains(name))
      << kGolden << " lacks\n\"" << name << "\": " << nlohmann::json(now).dump();
  EXPECT_EQ(now, file[name].get<std::vector<double>>())
      << "if this is meant, put into " << kGolden << "\n\"" << name
      << "\": " << nlohmann::json(now).dump();
}

class Golden : public testing::TestWithParam<Case> {};

TEST_P(Golden, LossesAreThoseOfTheFile) { check(GetParam().name, GetParam().keys); }

TEST(GoldenRecipe, LossesOfEveryOtherNamedRecipeAreThoseOfTheFile) {
  for (const numerics::Recipe& r : numerics::recipes())
    if (r.name != "fp64" && r.name != "fp32" && r.name != "bf16")
      check("llama_" + r.name, keys_of(r.name));
}

INSTANTIATE_TEST_SUITE_P(
    Recipes, Golden,
    testing::Values(Case{"llama_bf16", {}}, Case{"llama_fp32", {"train.recipe=fp32"}},
                    Case{"gpt2_bf16", {"model.family=gpt2", "model.kv_heads=0"}},
                    Case{"gpt2_fp32",
                         {"model.family=gpt2", "model.kv_heads=0", "train.recipe=fp32"}}),
    [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace lathe::train
