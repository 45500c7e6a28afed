#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lathe/base/file.h"
#include "lathe/cli/command.h"
#include "lathe/train/checkpoint.h"
#include "tests/cli/run_command.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/tiny_run.h"

namespace lathe::cli {
namespace {

using Json = nlohmann::json;

Result scan(std::vector<std::string> arguments) {
  Commands c;
  add_precision(c);
  arguments.insert(arguments.begin(), {"precision", "scan"});
  return run_command(c, arguments);
}

/// A run of six steps whose width takes blocks of 32.
std::string trained(const std::string& folder) {
  train::train_quietly(train::tiny_run(
      folder, {"train.steps=6", "model.hidden=64", "train.eval_every=0", "train.sample_tokens=0"}));
  return folder;
}

TEST(PrecisionScan, SaysOfEveryOperandWhatEachRecipeDoesToIt) {
  const testing_support::TemporaryFolder folder;
  const std::string run = trained(folder / "run");
  const std::string before = read_file(train::find_checkpoint(run) + "/manifest.json");
  const Result r = scan({run, "--recipes", "bf16,mxfp8,mxfp4", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json j = Json::parse(r.out);
  ASSERT_EQ(j["recipes"].size(), 3U);
  std::vector<double> weights;
  for (const Json& recipe : j["recipes"]) {
    // Two layers of four products and the head, six operands each.
    EXPECT_EQ(recipe["operands"].size(), (2U * 4 + 1) * 6);
    for (const Json& o : recipe["operands"])
      if (o["layer"] == "layers.0.attn.qkv" && o["operand"] == "forward.w")
        weights.push_back(o["sqnr_db"].get<double>());
  }
  // Normal weights: 55.6 dB in BF16, 31.5 in MXFP8, 19 in MXFP4, give or take what few are.
  ASSERT_EQ(weights.size(), 3U);
  EXPECT_GT(weights[0], weights[1] + 20);
  EXPECT_GT(weights[1], weights[2] + 8);
  EXPECT_EQ(read_file(train::find_checkpoint(run) + "/manifest.json"), before);
}

TEST(PrecisionScan, TakesTheFirstOfTheNextStepsSequencesAndNoOthers) {
  const testing_support::TemporaryFolder folder;
  const std::string run = trained(folder / "run");
  const auto with = [&](const std::string& n) {
    return scan({run, "--recipes", "mxfp8", "--json", "--sequences", n});
  };
  EXPECT_EQ(with("8").out, with("0").out);
  EXPECT_NE(with("4").out, with("8").out);
  for (const char* n : {"5", "12"}) {
    EXPECT_EQ(with(n).code, 2);
    EXPECT_NE(with(n).err.find("a multiple of 4, up to 8"), std::string::npos) << with(n).err;
  }
}

TEST(PrecisionScan, ReadsRecipesFromFilesAndScalesTheLossAsEachBegins) {
  const testing_support::TemporaryFolder folder;
  const std::string run = trained(folder / "run");
  write_atomically(folder / "none.toml", "base = \"fp16\"\n[loss_scale]\ninitial = 1\n");
  const Result r = scan({run, "--recipes", "fp16," + (folder / "none.toml"), "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json j = Json::parse(r.out);
  const auto amax = [&](int recipe) {
    for (const Json& o : j["recipes"][recipe]["operands"])
      if (o["layer"] == "layers.0.attn.qkv" && o["operand"] == "grad_x.dy")
        return o["amax"].get<double>();
    return 0.0;
  };
  EXPECT_EQ(j["recipes"][1]["recipe"], "none");
  EXPECT_GT(amax(1), 0);
  EXPECT_NEAR(amax(0) / amax(1), 64, 64 * 0x1p-7);  // activations are BF16
}

TEST(PrecisionScan, PrintsALineARecipe) {
  const testing_support::TemporaryFolder folder;
  const Result r = scan({trained(folder / "run"), "--sequences", "2"});
  ASSERT_EQ(r.code, 0) << r.err;
  for (const char* name : {"\nbf16 ", "\nfp8-hybrid-delayed ", "\nnvfp4 ", "\nhif8 "})
    EXPECT_NE(r.out.find(name), std::string::npos) << name << r.out;
  // Tiles of 128 do not fit a width of 32.
  EXPECT_EQ(r.out.find("\nfp8-deepseek "), std::string::npos) << r.out;
  EXPECT_NE(r.err.find("fp8-deepseek is left out: model."), std::string::npos) << r.err;
}

TEST(PrecisionScan, MistakesAreTold) {
  const testing_support::TemporaryFolder folder;
  EXPECT_EQ(scan({folder / "nothing"}).code, 2);
  const std::string run = trained(folder / "run");
  const Result unknown = scan({run, "--recipes", "mxfp9"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("did you mean"), std::string::npos) << unknown.err;
  const Result tiles = scan({run, "--recipes", "fp8-deepseek"});
  EXPECT_EQ(tiles.code, 2);
  EXPECT_NE(tiles.err.find("no multiple of the 128"), std::string::npos) << tiles.err;
}

}  // namespace
}  // namespace lathe::cli
