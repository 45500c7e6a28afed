#include "lathe/plan/page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/units.h"
#include "lathe/base/view.h"
#include "lathe/plan/machine.h"
#include "lathe/plan/per_parameter.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"

namespace lathe::plan {
namespace {

train::RunConfig config(const std::string& path) {
  ConfigFile f = ConfigFile::read(path);
  const ConfigFile::Value* vocab = f.find("model.vocab");
  // Without data there is no tokenizer to ask.
  const std::vector<std::string> set{"data.shards=", "model.vocab=4096"};
  const std::vector<std::string> only_data{"data.shards="};
  return train::read_run(ConfigFile::read(path, vocab ? only_data : set));
}

std::vector<std::string> config_paths() {
  std::vector<std::string> paths;
  for (const auto& e : std::filesystem::directory_iterator("configs"))
    if (e.path().extension() == ".toml") paths.push_back(e.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

class EachConfig : public testing::TestWithParam<std::string> {};

TEST_P(EachConfig, LoadsChecksAndDryRuns) {
  const train::RunConfig c = config(GetParam());
  const train::Footprint f = train::measure(c);
  EXPECT_GT(f.parameters, 0);
  EXPECT_GT(f.step.product_flops, 0);
  EXPECT_EQ(f.tokens_per_step, c.train.global_batch * c.model.context);
  i64 sum = 0;
  for (const train::Footprint::Part& p : f.parts) sum += p.bytes;
  EXPECT_EQ(sum, f.total());
  const std::string text = page(c, f, memory());
  EXPECT_NE(text.find(grouped(f.parameters)), std::string::npos);
  for (const train::Footprint::Part& p : f.parts)
    EXPECT_NE(text.find(grouped(p.bytes)), std::string::npos) << p.name;
}

INSTANTIATE_TEST_SUITE_P(Configs, EachConfig, testing::ValuesIn(config_paths()),
                         [](const auto& each) {
                           std::string s = std::filesystem::path(each.param).stem().string();
                           std::replace_if(
                               s.begin(), s.end(), [](char c) { return !std::isalnum(c); }, '_');
                           return s;
                         });

TEST(Plan, Gpt2SmallHasThePublishedNumberOfParameters) {
  // 124,439,808 with 50257 ids (Radford et al., 2019, as released); 47 more rows of 768 here.
  const train::RunConfig c = config("configs/gpt2-124m.toml");
  EXPECT_EQ(train::measure(c).parameters, 124'439'808 + 47 * 768);
}

// 6 N + 12 L C T by hand: N without the 1024 x 768 positions.
TEST(Plan, TheUsualEstimateOfWorkIsWhatItsFormulaSays) {
  const train::RunConfig c = config("configs/gpt2-124m.toml");
  const double n = 124'439'808 + 47 * 768 - 1024 * 768;
  EXPECT_EQ(model_flops_per_token(c), 6 * n + 12.0 * 12 * 768 * 1024);
}

TEST(Plan, JsonHoldsEveryQuantityAndTheConfiguration) {
  const train::RunConfig c = config("configs/tiny.toml");
  const train::Footprint f = train::measure(c);
  Memory m;
  m.available = f.total() / 2;
  const auto j = nlohmann::json::parse(page_json(c, f, m));
  EXPECT_EQ(j["parameters"], f.parameters);
  EXPECT_EQ(j["memory_total"], f.total());
  EXPECT_EQ(j["memory_available"], m.available);
  EXPECT_EQ(j["fits"], false);
  for (const train::Footprint::Part& p : f.parts) EXPECT_EQ(j["memory"][p.name]["bytes"], p.bytes);
  const ConfigFile back = ConfigFile::parse(j["config"].get<std::string>(), "json");
  EXPECT_EQ(train::to_toml(train::read_run(back)), train::to_toml(c));
}

TEST(Plan, TheDiskMustHoldOneCheckpointMoreThanAreKept) {
  train::RunConfig c = config("configs/tiny.toml");
  c.train.keep_checkpoints = 3;
  const train::Footprint f = train::measure(c);
  const std::string text = page(c, f, memory()), all = bytes_text(4 * saved_bytes(c));
  EXPECT_NE(text.find("3 are kept, and one more while it is written: " + all), std::string::npos)
      << text;
}

TEST(Plan, AMachineThatTellsNothingLeavesTheRowOut) {
  const train::RunConfig c = config("configs/tiny.toml");
  const train::Footprint f = train::measure(c);
  EXPECT_EQ(memory_table(f, Memory{}).find("available"), std::string::npos);
}

}  // namespace
}  // namespace lathe::plan
