// Runs whose weights, gradients and moments are stored in less than FP32.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/config.h"
#include "lathe/train/safetensors.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/tiny_run.h"

namespace lathe::train {
namespace {

using testing_support::TemporaryFolder;

struct Stored {
  const char* name;
  std::vector<std::string> keys;
  DType moments, weights;  // of a matrix, in the checkpoint
};

class EachStorage : public testing::TestWithParam<Stored> {
 protected:
  /// Wide enough for matrices to have moments in eight bits.
  static RunConfig run(const std::string& folder, i64 steps) {
    std::vector<std::string> keys = GetParam().keys;
    for (const char* k : {"model.width=64", "model.layers=1", "schedule.name=constant",
                          "train.eval_every=0", "train.checkpoint_every=0", "schedule.warmup=0"})
      keys.emplace_back(k);
    keys.push_back("train.steps=" + std::to_string(steps));
    return tiny_run(folder, keys);
  }
  static std::vector<double> losses(const std::string& folder) {
    std::vector<double> all;
    std::istringstream lines(read_file(folder + "/log.jsonl"));
    for (std::string line; std::getline(lines, line);)
      all.push_back(nlohmann::json::parse(line)["loss"].get<double>());
    return all;
  }
  static std::string saved(const std::string& folder) {
    const std::string checkpoint = find_checkpoint(folder);
    return read_file(checkpoint + "/model.safetensors") +
           read_file(checkpoint + "/optimizer.safetensors");
  }
};

TEST_P(EachStorage, LearnsAndGoesOnToTheSameBits) {
  const TemporaryFolder folder;
  const std::string whole = folder / "whole", parts = folder / "parts";
  train_quietly(run(whole, 30));
  train_quietly(run(parts, 11));
  train_quietly(run(parts, 30));
  EXPECT_EQ(losses(parts), losses(whole));
  EXPECT_EQ(saved(parts), saved(whole));

  const std::vector<double> all = losses(whole);
  ASSERT_EQ(all.size(), 30u);
  for (const double loss : all) EXPECT_TRUE(std::isfinite(loss));
  EXPECT_LT(all.back(), all.front() - 1) << "nats; FP32 falls by more than two";
}

TEST_P(EachStorage, IsWhatTheCheckpointHoldsAndNoOtherGoesOnFromIt) {
  const TemporaryFolder folder;
  RunConfig c = run(folder / "run", 2);
  train_quietly(c);
  const std::string checkpoint = find_checkpoint(folder / "run");
  const SafeTensors state(checkpoint + "/optimizer.safetensors");
  const SafeTensors weights(checkpoint + "/model.safetensors");
  const char* matrix = "layers.0.attn.qkv";
  EXPECT_EQ(state.entries().at(std::string(matrix) + ".m").type, GetParam().moments);
  EXPECT_EQ(state.entries().at(std::string(matrix) + ".v").type, GetParam().moments);
  EXPECT_EQ(state.entries().contains(std::string(matrix) + ".v.scales"),
            GetParam().moments == DType::uint8);
  EXPECT_EQ(weights.entries().at(matrix).type, GetParam().weights);
  EXPECT_EQ(weights.entries().at("norm.gain").type, DType::f32);
  const LoadedModel m = load_model(folder / "run");
  EXPECT_EQ(m.params.find(matrix)->master.type, GetParam().weights);

  c.optimizer.moments = c.optimizer.moments == "fp32" ? "8bit" : "fp32";
  try {
    train_quietly(c);
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(e.report().find("optimizer.moments"), std::string::npos) << e.report();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, EachStorage,
    testing::Values(
        Stored{"bf16_moments", {"optimizer.moments=bf16"}, DType::bf16, DType::f32},
        Stored{"bf16_everything",
               {"optimizer.moments=bf16", "optimizer.weights=bf16", "optimizer.gradients=bf16"},
               DType::bf16,
               DType::bf16},
        Stored{"bf16_tied",
               {"model.family=gpt2", "model.kv_heads=0", "optimizer.weights=bf16",
                "optimizer.gradients=bf16"},
               DType::f32,
               DType::bf16},
        Stored{
            "fp8", {"optimizer.moments=fp8", "optimizer.weights=bf16"}, DType::uint8, DType::bf16},
        Stored{"8bit", {"optimizer.moments=8bit"}, DType::uint8, DType::f32},
        Stored{"fp32_recipe",
               {"train.recipe=fp32", "optimizer.moments=8bit", "optimizer.weights=bf16",
                "optimizer.gradients=bf16"},
               DType::uint8,
               DType::bf16}),
    [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace lathe::train
