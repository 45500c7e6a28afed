// Every recipe trains, and its bits do not depend on the shape of the run either.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/file.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/data/loader.h"
#include "lathe/kernels/kernels.h"
#include "lathe/numerics/recipe.h"
#include "lathe/parallel/params.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"
#include "lathe/train/loop.h"
#include "lathe/train/step.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/tiny_run.h"

namespace lathe::train {
namespace {

/// A recipe of one's own: a file of that name, in a folder that lives as long as the tests.
struct Own {
  const char *name, *text;
};
constexpr Own kOwn[]{
    {"low_attention",
     "base = \"mxfp8\"\n[attention]\nq = {format = \"e4m3\", scaling = \"mx\"}\n"
     "k = {format = \"e4m3\", scaling = \"mx\"}\np = {format = \"e4m3\", scaling = \"shift\"}\n"
     "v = {format = \"hif8\", scaling = \"none\"}\n"},
    {"quick_to_adapt",
     "base = \"adaptive\"\n[adaptive]\nlevels = \"mxfp4, mxfp8, bf16\"\nevery = 1\npatience = 1\n"
     "snr_db = 17\nmargin_db = 0.5\nunderflow = 1\n"},
    // One copy of a weight serves two products at the lower level; not where they lie apart.
    {"apart",
     "base = \"adaptive\"\n[adaptive]\nlevels = \"hif8, fp8-e4m3-tensor, bf16\"\nevery = 1\n"
     "patience = 1\nsaturated = 1\nsnr_db = 31\nmargin_db = 0.5\n"},
    // Its first steps overflow.
    {"too_high", "base = \"fp16\"\n[loss_scale]\ninitial = 65536\n"},
    {"from_one", "base = \"fp16\"\n[loss_scale]\ninitial = 1\nwindow = 2\n"},
};

/// What train.recipe is to be for a name.
std::string value_of(const std::string& name) {
  static const testing_support::TemporaryFolder folder;
  for (const Own& o : kOwn)
    if (name == o.name) {
      std::string path = folder / (name + ".toml");
      write_atomically(path, o.text);
      return path;
    }
  return name;
}

/// Whole blocks of the recipe in every dimension, and as many steps as see every part of a run.
std::vector<std::string> keys_of(const std::string& recipe, const std::vector<std::string>& more) {
  std::vector<std::string> keys{"train.recipe=" + value_of(recipe),
                                "model.layers=1",
                                "model.width=64",
                                "model.hidden=64",
                                "model.heads=2",
                                "model.kv_heads=1",
                                "train.steps=6",
                                "train.micro_batch=2",
                                "train.global_batch=4",
                                "optimizer.lr=3e-3"};
  if (recipe == "fp8-deepseek")
    keys.insert(keys.end(),
                {"model.width=128", "model.hidden=128", "model.heads=4", "model.kv_heads=2"});
  if (recipe == "nvfp4") keys.emplace_back("model.layers=2");  // the last is in BF16
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

struct Trace {
  std::vector<double> losses;
  double held_out = 0;
  std::string weights;
  bool operator==(const Trace&) const = default;
};

/// Every step of a run in memory that was measured for it.
Trace trace(const std::vector<std::string>& keys) {
  const RunConfig c = tiny_run("unused", keys);
  const Footprint need = measure(c);
  Queue q(thread_count(c));
  Arenas memory = Arenas::backed(need);
  const data::Loader loader(c.data.shards, data::Loader::Part::train, c.model.context,
                            c.model.known(), 1);
  Trainer t(c, kernels::select(c.run.kernels), q, memory);
  t.init();
  Trace out;
  for (i64 n = 1; n <= c.train.steps; ++n) out.losses.push_back(t.step(n, &loader).loss.mean());
  out.held_out = t.evaluate(&loader, 5).mean();
  t.decoder().next(0);  // in the same memory
  for (const parallel::Param& p : t.params().all())
    out.weights.append(static_cast<const char*>(p.master.data),
                       static_cast<std::size_t>(p.master.bytes()));
  for (const Arena* a : memory.all()) EXPECT_LE(a->peak(), need.part(a->name())) << a->name();
  return out;
}

class EachRecipe : public testing::TestWithParam<std::string> {
 protected:
  static Trace with(const std::vector<std::string>& more) {
    return trace(keys_of(GetParam(), more));
  }
  static const Trace& plain() {
    static std::map<std::string, Trace> known;
    if (!known.contains(GetParam())) known[GetParam()] = with({});
    return known[GetParam()];
  }
};

TEST_P(EachRecipe, Learns) {
  const std::vector<double>& l = plain().losses;
  for (const double x : l) EXPECT_TRUE(std::isfinite(x));
  EXPECT_LT(l.back(), l.front());
  EXPECT_LT(plain().held_out, l.front());
}

TEST_P(EachRecipe, HasTheSameBitsForAnyThreadsTableAndRecompute) {
  EXPECT_EQ(with({"run.threads=2", "train.recompute=attention"}), plain());
  std::vector<std::string> tables;
  for (const kernels::Candidate& k : kernels::candidates())
    if (k.why_not.empty()) tables.emplace_back(k.table->name);
  for (const std::string& table : tables)
    EXPECT_EQ(with({"run.kernels=" + table, "train.recompute=block"}), plain()) << table;
}

TEST_P(EachRecipe, HasTheSameBitsForAnyMicroBatchUnlessAScaleSpansOne) {
  if (GetParam() == "adaptive") return;  // too few steps for it to leave BF16
  if (numerics::spans_micro_batch(recipe_of(tiny_run("unused", keys_of(GetParam(), {}))))) {
    // Then the micro-batch is part of the recipe: another one is another run.
    EXPECT_NE(with({"train.micro_batch=1"}), plain());
    return;
  }
  for (const char* n : {"1", "4"})
    EXPECT_EQ(with({std::string("train.micro_batch=") + n}), plain()) << n;
}

TEST_P(EachRecipe, GoesOnFromACheckpointAsIfNothingHadHappened) {
  const testing_support::TemporaryFolder folder;
  const std::vector<std::string> keys =
      keys_of(GetParam(), {"train.checkpoint_every=3", "train.eval_every=0"});
  const RunConfig c = tiny_run(folder / "run", keys);
  const auto newest = [&] {
    const std::string at = find_checkpoint(folder / "run");
    std::string all =
        read_file(at + "/model.safetensors") + read_file(at + "/optimizer.safetensors");
    const std::string recipe = at + "/recipe.safetensors";
    return exists(recipe) ? all + read_file(recipe) : all;
  };
  train_quietly(c);
  const std::string whole = newest();
  ASSERT_NE(find_checkpoint(folder / "run", Pick::previous), "");
  EXPECT_EQ(train_quietly(c, true).step, 6);
  EXPECT_EQ(newest(), whole);
}

TEST(OwnRecipe, LowAttentionIsAnotherRunThanTheSameInBf16) {
  EXPECT_NE(trace(keys_of("low_attention", {})).losses, trace(keys_of("mxfp8", {})).losses);
}

TEST(LossScale, Fp16BeginsWithOneThatLosesNoStep) {
  const auto skipped = [](const std::string& recipe) {
    const testing_support::TemporaryFolder folder;
    train_quietly(tiny_run(folder / "run", keys_of(recipe, {})));
    return read_file(folder / "run/log.jsonl").find("\"skipped\":true") != std::string::npos;
  };
  EXPECT_TRUE(skipped("too_high"));
  EXPECT_FALSE(skipped("fp16"));
}

TEST(OwnRecipe, AnAdaptiveOneChoosesTheSameHoweverOftenItIsWatched) {
  const std::string recipe = value_of("quick_to_adapt");
  std::string text = read_file(recipe);
  const testing_support::TemporaryFolder folder;
  const std::string slow = folder / "slow.toml";
  write_atomically(slow, text.replace(text.find("every = 1"), 9, "every = 4"));
  const auto with = [&](const std::string& every) {
    return trace(keys_of("quick_to_adapt", {"train.recipe=" + slow, "train.steps=9",
                                            "train.fidelity_every=" + every}));
  };
  EXPECT_EQ(with("1"), with("0"));
  EXPECT_NE(with("0"), trace(keys_of("mxfp8", {"train.steps=9"})));
}

TEST(OwnRecipe, AnAdaptiveOneWritesWhatItChangesAndWhatItSaw) {
  const testing_support::TemporaryFolder folder;
  train_quietly(tiny_run(folder / "run", keys_of("quick_to_adapt", {})));
  const std::string log = read_file(folder / "run/log.jsonl");
  EXPECT_NE(log.find("\"changes\":[{\"layer\":\"layers.0.attn.qkv\",\"product\":\"forward\","
                     "\"from\":\"bf16\",\"to\":\""),
            std::string::npos)
      << log;
  const std::string seen = read_file(folder / "run/fidelity.jsonl");
  EXPECT_EQ(std::count(seen.begin(), seen.end(), '\n'),
            6 * 4 * 6);  // steps, products' weights, operands
  EXPECT_NE(seen.find("\"operand\":\"grad_w.dy\",\"level\":\"mxfp"), std::string::npos) << seen;
}

// One encoding of w, and one of dy, serves two products here: what is measured of the second is
// measured with the scale of the first, or it would be with none.
TEST(OwnRecipe, WhatIsMeasuredUnderDelayedScalingIsUnderTheScaleThatIsUsed) {
  const testing_support::TemporaryFolder folder;
  train_quietly(
      tiny_run(folder / "run", keys_of("fp8-hybrid-delayed", {"train.fidelity_every=1"})));
  std::istringstream lines(read_file(folder / "run/fidelity.jsonl"));
  std::map<std::string, double> last;
  for (std::string line; std::getline(lines, line);) {
    const auto j = nlohmann::json::parse(line);
    if (j["layer"] == "layers.0.mlp.down" && j["sqnr_db"].is_number())
      last[j["operand"].get<std::string>()] = j["sqnr_db"].get<double>();
  }
  // Sums of FP64 in another order: 2^-40 is far above what that changes, far below a wrong scale.
  EXPECT_NEAR(last["grad_x.w"], last["forward.w"], 0x1p-40 * last["forward.w"]);
  EXPECT_NEAR(last["grad_w.dy"], last["grad_x.dy"], 0x1p-40 * last["grad_x.dy"]);
  EXPECT_GT(last["forward.w"], 30);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Own& o : kOwn) all.emplace_back(o.name);
  for (const numerics::Recipe& r : numerics::recipes())
    if (r.name != "fp64" && r.name != "fp32" && r.name != "bf16") all.push_back(r.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Recipes, EachRecipe, testing::ValuesIn(names()), [](const auto& i) {
  std::string name = i.param;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

}  // namespace
}  // namespace lathe::train
