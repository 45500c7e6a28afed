#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/file.h"
#include "lathe/cli/command.h"
#include "lathe/numerics/recipe.h"
#include "lathe/report/read.h"
#include "lathe/train/config.h"
#include "lathe/train/loop.h"
#include "tests/cli/run_command.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/tiny_run.h"

namespace lathe::cli {
namespace {

using Json = nlohmann::json;

Result lathe(const std::vector<std::string>& arguments) {
  Commands c;
  add_precision(c);
  return run_command(c, arguments);
}

constexpr const char* kRun = R"(
[model]
family = "llama"
layers = 1
width = 32
heads = 2
context = 24
[train]
steps = 4
global_batch = 4
micro_batch = 2
eval_every = 2
eval_sequences = 4
checkpoint_every = 0
sample_tokens = 0
)";

class PrecisionCompare : public testing::Test {
 protected:
  PrecisionCompare() { write_atomically(folder_ / "run.toml", kRun); }

  /// `lathe precision compare run.toml` with more arguments.
  Result compare(std::vector<std::string> more) const {
    std::vector<std::string> arguments{"precision", "compare", folder_ / "run.toml"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    for (const std::string& o : overrides()) arguments.insert(arguments.end(), {"--set", o});
    return lathe(arguments);
  }
  std::vector<std::string> overrides() const {
    return {"run.folder=" + folder_ / "run", "run.threads=1",
            "data.shards=" + train::tiny_shards()};
  }
  std::string in_results(const std::string& name) const {
    return folder_ / ("run/compare/" + name);
  }
  Json results() const { return Json::parse(read_file(in_results("compare.json"))); }

  testing_support::TemporaryFolder folder_;
};

TEST_F(PrecisionCompare, TrainsEveryRecipeFromTheSameStartAndWritesItDown) {
  const Result r = compare({"--recipes", "fp32,bf16"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(has(r.out, "[1 of 3] bf16"));
  EXPECT_TRUE(has(r.out, "[2 of 3] fp32"));
  EXPECT_TRUE(has(r.out, "[3 of 3] bf16-seed-2"));
  EXPECT_TRUE(has(r.out, in_results("index.html")));
  EXPECT_TRUE(has(read_file(in_results("index.html")), "</html>"));
  const Json j = results();
  ASSERT_EQ(j["recipes"].size(), 2U);
  EXPECT_EQ(j["recipes"][0]["outcome"], "baseline");
  EXPECT_EQ(j["recipes"][1]["recipe"], "fp32");
  EXPECT_EQ(j["noise"]["seeds"], 2);
  EXPECT_GT(j["noise"]["nats"], 0);
  EXPECT_EQ(j["recipes"][1]["steps"], 4);
  EXPECT_GT(j["recipes"][0]["bytes_per_parameter"], 16);

  // The baseline is the very run that `lathe train` makes of the file; another seed is another run.
  train::RunConfig c = train::read_run(ConfigFile::parse(kRun, "run.toml", overrides()));
  c.run.folder = folder_ / "alone";
  train::train_quietly(c);
  const report::RunRecord alone = report::read_run(folder_ / "alone");
  const report::RunRecord bf16 = report::read_run(in_results("bf16"));
  ASSERT_EQ(alone.steps.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(alone.steps[i].loss, bf16.steps[i].loss);
  const report::RunRecord seed = report::read_run(in_results("bf16-seed-2"));
  EXPECT_NE(seed.steps[0].loss, bf16.steps[0].loss);
}

TEST_F(PrecisionCompare, WhatIsFinishedIsNotTrainedAgain) {
  ASSERT_EQ(compare({"--recipes", "bf16", "--noise-seeds", "1"}).code, 0);
  const std::string log = read_file(in_results("bf16/log.jsonl"));
  const Result r = compare({"--recipes", "fp32", "--noise-seeds", "1"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(has(r.out, "finished before: 4 steps"));
  EXPECT_EQ(read_file(in_results("bf16/log.jsonl")), log);  // speeds in it would differ
  EXPECT_EQ(results()["recipes"].size(), 2U);
  EXPECT_EQ(results()["recipes"][1]["outcome"], "no_band");
}

TEST_F(PrecisionCompare, AStoppedComparisonGoesOn) {
  // A signal that comes too late must fail this test, not end the whole process.
  struct sigaction ignore{}, before{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGINT, &ignore, &before);
  const std::string log = in_results("bf16/log.jsonl");
  std::thread interrupter([&] {
    std::error_code e;
    while (!(std::filesystem::file_size(log, e) > 0) || e)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    kill(getpid(), SIGINT);
  });
  const std::vector<std::string> command{"--recipes", "fp32",    "--noise-seeds",
                                         "1",         "--steps", "300"};
  const Result first = compare(command);
  interrupter.join();
  sigaction(SIGINT, &before, nullptr);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_TRUE(has(first.out, "stopped; the same command goes on"));
  EXPECT_FALSE(has(first.out, "[2 of 2]"));
  EXPECT_EQ(results()["recipes"][0]["outcome"], "unfinished");
  EXPECT_EQ(results()["recipes"][1]["verdict"], "not begun");

  const Result second = compare(command);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_TRUE(has(second.out, "going on from"));
  EXPECT_EQ(results()["recipes"][0]["outcome"], "baseline");
  EXPECT_EQ(results()["recipes"][1]["steps"], 300);
}

TEST_F(PrecisionCompare, ARunThatDivergesStopsNoOther) {
  // Decay takes every matrix times 1 - 1e9 a step.
  const std::vector<std::string> command{"--recipes", "fp32",
                                         "--steps",   "20",
                                         "--set",     "optimizer.lr=1e6",
                                         "--set",     "optimizer.weight_decay=1e3"};
  const Result r = compare(command);
  ASSERT_EQ(r.code, 0) << r.err;
  for (const char* name : {"bf16", "fp32", "bf16-seed-2"}) {
    const Json j = Json::parse(read_file(in_results(std::string(name) + "/diverged.json")));
    EXPECT_GE(j["step"], 1);
    EXPECT_LE(j["step"], 20);
  }
  EXPECT_EQ(results()["recipes"][1]["outcome"], "diverged");
  const Result again = compare(command);
  EXPECT_EQ(again.code, 0);
  EXPECT_TRUE(has(again.out, "before; remove " + in_results("fp32")));
  EXPECT_FALSE(has(again.out, "going on from"));
}

TEST_F(PrecisionCompare, FoldersOfRunsWithOtherSettingsAreRefused) {
  ASSERT_EQ(compare({"--recipes", "bf16", "--noise-seeds", "1"}).code, 0);
  const Result r = compare({"--recipes", "bf16,fp32", "--set", "optimizer.lr=0.5"});
  EXPECT_EQ(r.code, 2);
  EXPECT_TRUE(has(r.err, "optimizer.lr (0.001 there, 0.5 now)")) << r.err;
  EXPECT_TRUE(has(
      r.err, "compare in another folder, such as --set run.folder=" + (folder_ / "run") + "-2,"))
      << r.err;
  EXPECT_FALSE(exists(in_results("fp32/log.jsonl")));
}

TEST_F(PrecisionCompare, TheRunItselfCanStillBeTrainedInItsFolder) {
  ASSERT_EQ(compare({"--recipes", "bf16", "--noise-seeds", "1"}).code, 0);
  const train::RunConfig c = train::read_run(ConfigFile::parse(kRun, "run.toml", overrides()));
  EXPECT_EQ(train::train_quietly(c).step, 4);
}

TEST_F(PrecisionCompare, JsonIsAllThatStandsOnTheOutput) {
  const Result r = compare({"--recipes", "bf16", "--noise-seeds", "1", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(Json::parse(r.out), results());
  EXPECT_TRUE(has(r.err, "[1 of 1] bf16"));
}

TEST_F(PrecisionCompare, MistakesAreToldBeforeAnythingIsTrained) {
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& what) {
    const Result r = compare(arguments);
    EXPECT_EQ(r.code, 2) << what;
    EXPECT_TRUE(has(r.err, what)) << r.err;
    EXPECT_TRUE(has(r.err, "hint: ")) << r.err;
    EXPECT_FALSE(exists(in_results("bf16/log.jsonl"))) << what;
  };
  refused({"--recipes", "bf16,fp322"}, "did you mean \"fp32\"?");
  refused({"--recipes", "bf16,fp322"}, "--> --recipes fp322");
  refused({"--recipes", "fp32,bf16,fp32"}, "--recipes names fp32 twice");
  refused({"--recipes", ""}, "no recipes were given");
  const std::string mine = "base = \"mxfp8\"\n";
  for (const char* file : {"a/x.toml", "b/x.toml", "bf16.toml", "bf16-seed-2.toml"}) {
    make_folders((folder_ / file).substr(0, (folder_ / file).rfind('/')));
    write_atomically(folder_ / file, mine);
  }
  refused({"--recipes", (folder_ / "a/x.toml") + "," + (folder_ / "b/x.toml")},
          "b/x.toml would both be in " + in_results("x"));
  refused({"--recipes", folder_ / "bf16.toml"}, "bf16 and " + (folder_ / "bf16.toml"));
  refused({"--recipes", folder_ / "bf16-seed-2.toml"}, "in the folder of another seed's run");
  refused({}, "no recipes were given");
  refused({"--recipes", "fp32,,bf16"}, "an empty name");
  refused({"--recipes", "fp32", "--noise-seeds", "0"}, "--noise-seeds");
  refused({"--recipes", "fp32", "--steps", "0"}, "--steps");
  refused({"--recipes", "fp32", "--steps", "few"}, "--steps");
  refused({"--recipes", "fp32", "--set", "schedule.warmup=9"}, "schedule.warmup = 9 is longer");
  const Result none = lathe({"precision", "compare", "--recipes", "fp32"});
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(has(none.err, "no run file was given")) << none.err;
  EXPECT_EQ(lathe({"precision", "compare", folder_ / "no.toml", "--recipes", "fp32"}).code, 2);
}

TEST_F(PrecisionCompare, AFolderThatCannotBeMadeIsToldBeforeAnythingIsTrained) {
  write_atomically(folder_ / "run", "a file");
  const Result r = compare({"--recipes", "fp32"});
  EXPECT_EQ(r.code, 2);
  EXPECT_TRUE(has(r.err, folder_ / "run")) << r.err;
}

TEST(Precision, ListsEveryRecipe) {
  const Result r = lathe({"precision", "recipes"});
  const Json j = Json::parse(lathe({"precision", "recipes", "--json"}).out);
  ASSERT_EQ(j.size(), numerics::recipes().size());
  for (std::size_t i = 0; i < j.size(); ++i) {
    const numerics::Recipe& recipe = numerics::recipes()[i];
    EXPECT_EQ(j[i]["name"], recipe.name);
    EXPECT_EQ(j[i]["source"], recipe.source);
    EXPECT_TRUE(has(r.out, recipe.about)) << recipe.name;
  }
}

TEST(Precision, IsAWordThatCommandsStandBehind) {
  EXPECT_TRUE(has(lathe({"precision"}).out, "compare"));
  EXPECT_EQ(lathe({"precision"}).code, 0);
  EXPECT_EQ(lathe({"precision"}).out, lathe({"precision", "--help"}).out);
  EXPECT_EQ(lathe({"help", "precision", "compare"}).out,
            lathe({"precision", "compare", "--help"}).out);
  EXPECT_EQ(lathe({"precision", "cmpare"}).err,
            "error: there is no command 'precision cmpare'\n"
            "  hint: did you mean lathe precision compare?\n");
  EXPECT_EQ(lathe({"precision", "compare", "--recipse", "x"}).err,
            "error: lathe precision compare has no option --recipse\n"
            "  hint: did you mean --recipes?\n");
  EXPECT_EQ(lathe({"precision", "--recipes"}).code, 2);
}

}  // namespace
}  // namespace lathe::cli
