#include "lathe/train/loop.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <ios>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/numerics/recipe_file.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/signalled_run.h"
#include "tests/train/tiny_run.h"

namespace lathe::train {
namespace {

namespace fs = std::filesystem;
using testing_support::TemporaryFolder;

std::string weights_of(const std::string& folder) {
  return read_file(find_checkpoint(folder) + "/model.safetensors") +
         read_file(find_checkpoint(folder) + "/optimizer.safetensors");
}

/// The uninterrupted run that all others must equal.
class Loop : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    whole_ = new TemporaryFolder;
    train_quietly(tiny_run(*whole_ / "run"));
  }
  static void TearDownTestSuite() { delete whole_; }
  static std::string whole() { return *whole_ / "run"; }
  static void expect_whole(const std::string& folder) {
    EXPECT_EQ(log_of(folder), log_of(whole()));
    EXPECT_EQ(weights_of(folder), weights_of(whole()));
  }
  TemporaryFolder folder_;
  const std::string run_ = folder_ / "run";

 private:
  static TemporaryFolder* whole_;
};
TemporaryFolder* Loop::whole_ = nullptr;

TEST_F(Loop, LogsEveryStepAndWritesWhatOthersRead) {
  const auto lines = log_of(whole());
  ASSERT_EQ(lines.size(), 50u);
  i64 tokens = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto j = nlohmann::json::parse(lines[i]);
    EXPECT_EQ(j["step"], static_cast<i64>(i + 1));
    EXPECT_GT(j["tokens"].get<i64>(), tokens);
    tokens = j["tokens"].get<i64>();
    EXPECT_EQ(j.contains("held_out_loss"), i == 24 || i == 49) << i;
    EXPECT_EQ(j.contains("sample"), i == 24 || i == 49) << i;
  }
  const auto facts = nlohmann::json::parse(read_file(whole() + "/run.json"));
  EXPECT_EQ(facts["parameters"], measure(tiny_run(whole())).parameters);
  EXPECT_GT(facts["peak_flops"].get<double>(), 0);
  EXPECT_EQ(facts["memory"].size(), 7u);
  EXPECT_EQ(to_toml(read_run(ConfigFile::read(whole() + "/config.toml"))),
            to_toml(tiny_run(whole())));
}

TEST_F(Loop, SaysThatAFinishedRunIsFinished) {
  const auto before = log_of(whole());
  EXPECT_EQ(train_quietly(tiny_run(whole())).how, Outcome::How::was_finished);
  EXPECT_EQ(log_of(whole()), before);
}

TEST_F(Loop, StopsOnASignalAndGoesOnToTheSameBits) {
  for (const int s : {SIGTERM, SIGINT}) {
    const TemporaryFolder folder;
    const RunConfig c = tiny_run(folder / "run");
    const int status = train_and_signal(c, 20, {s});
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_EQ(WEXITSTATUS(status), 0);
    EXPECT_EQ(Checkpoint(find_checkpoint(folder / "run")).info().step, 20);
    EXPECT_EQ(log_of(folder / "run").size(), 20u);
    EXPECT_EQ(train_quietly(c).how, Outcome::How::finished);
    expect_whole(folder / "run");
  }
}

TEST_F(Loop, KilledAtAnyMomentGoesOnToTheSameBits) {
  for (const i64 step : {1, 12, 33, 50}) {
    const TemporaryFolder folder;
    const RunConfig c = tiny_run(folder / "run", {"run.threads=2"});
    const int status = train_and_signal(c, step, {SIGKILL});
    ASSERT_TRUE(WIFSIGNALED(status));
    train_quietly(c);
    expect_whole(folder / "run");
  }
}

TEST_F(Loop, GoesOnAfterADamagedCheckpointFromTheOneBeforeIfAsked) {
  const RunConfig c = tiny_run(run_);
  fs::copy(whole(), run_, fs::copy_options::recursive);
  const std::string damaged = find_checkpoint(run_) + "/optimizer.safetensors";
  std::ofstream(damaged, std::ios::app) << "x";
  EXPECT_NE(error_of(c).find(damaged), std::string::npos);
  train_quietly(c, true);
  expect_whole(run_);
}

TEST_F(Loop, RefusesAFolderOfAnotherRunAndNamesTheKeys) {
  const std::string report =
      error_of(tiny_run(whole(), {"optimizer.lr=0.5", "model.hidden=64", "run.threads=2"}));
  EXPECT_NE(report.find("optimizer.lr (0.01 there, 0.5 now)"), std::string::npos) << report;
  EXPECT_NE(report.find("model.hidden (48 there, 64 now)"), std::string::npos) << report;
  EXPECT_EQ(report.find("threads"), std::string::npos) << report;
  EXPECT_NE(report.find("hint"), std::string::npos) << report;
}

TEST_F(Loop, AChangedRecipeFileIsRefusedAndNamesItsKeys) {
  const TemporaryFolder folder;
  const std::string file = folder / "mine.toml";
  const auto run = [&](const std::string& grad_w) {
    std::ofstream(file) << "base = \"bf16\"\n" << grad_w;
    return tiny_run(folder / "run", {"train.recipe=" + file, "train.steps=5"});
  };
  const RunConfig c = run("");
  train_quietly(c);
  EXPECT_EQ(numerics::read_recipe(folder / "run/recipe.toml"), recipe_of(c));
  EXPECT_EQ(*load_model(folder / "run").recipe, recipe_of(c));
  EXPECT_EQ(error_of(run("# only a comment\n")), "");
  const std::string report = error_of(run("[grad_w]\ndy = {rounding = \"stochastic\"}\n"));
  EXPECT_NE(report.find("recipe.grad_w.dy.rounding (even there, stochastic now)"),
            std::string::npos)
      << report;
  EXPECT_EQ(report.find("grad_w.x"), std::string::npos) << report;
  const std::string name = error_of(tiny_run(folder / "run", {"train.steps=5"}));
  EXPECT_NE(name.find("train.recipe (mine there, bf16 now)"), std::string::npos) << name;
}

TEST_F(Loop, ARunsResolvedFileRunsAgain) {
  const TemporaryFolder folder;
  std::ofstream(folder / "mine.toml") << "base = \"bf16\"\n[override.a]\nrecipe = \"fp32\"\n";
  const RunConfig c =
      tiny_run(folder / "run", {"train.recipe=" + folder / "mine.toml", "train.steps=5"});
  train_quietly(c);
  fs::remove(folder / "mine.toml");
  const RunConfig again = read_run(ConfigFile::read(folder / "run/config.toml"));
  EXPECT_EQ(recipe_of(again), recipe_of(c));
  EXPECT_EQ(results_hash(again), results_hash(c));
}

TEST_F(Loop, RefusesAFolderThatHoldsOtherThings) {
  fs::create_directories(run_);
  std::ofstream(run_ + "/thesis.txt") << "precious";
  EXPECT_NE(error_of(tiny_run(run_)).find("thesis.txt"), std::string::npos);
}

TEST_F(Loop, LetsOnlyOneProcessTrainInAFolder) {
  const TemporaryFolder folder;
  const RunConfig c = tiny_run(folder / "run", {"train.steps=100000"});
  const pid_t child = fork();
  if (child == 0) {
    try {
      train_quietly(c);
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  while (!exists(folder / "run/log.jsonl"))
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_NE(error_of(c).find("another process"), std::string::npos);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_F(Loop, GoesOnWhenACheckpointCannotBeWritten) {
  const RunConfig c = tiny_run(run_, {"train.keep_checkpoints=9"});
  // The renames before that of step 10's folder are those of recipe.toml, config.toml and run.json.
  faults::clear();
  faults::fail_after(faults::Op::rename, 3, ENOSPC);
  train_quietly(c);
  faults::clear();
  EXPECT_FALSE(exists(run_ + "/checkpoints/step-00000010"));
  EXPECT_TRUE(exists(run_ + "/checkpoints/step-00000020"));
  expect_whole(run_);
}

TEST_F(Loop, KeepsACheckpointWhenTheDataVanishes) {
  const std::string shards = folder_ / "shards";
  fs::copy(tiny_shards(), shards, fs::copy_options::recursive);
  RunConfig c = tiny_run(run_);
  c.data.shards = shards;
  c.train.steps = 100000;
  c.train.checkpoint_every = 0;
  const pid_t child = fork();
  if (child == 0) {
    std::string report;
    try {
      train_quietly(c);
    } catch (const Error& e) {
      report = e.report();
    }
    _exit(report.find(shards) == std::string::npos ? 1 : 0);
  }
  while (!exists(run_ + "/log.jsonl") || read_file(run_ + "/log.jsonl").empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  for (const auto& e : fs::directory_iterator(shards))
    if (e.path().extension() == ".tokens") fs::resize_file(e.path(), 130);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const std::string saved = find_checkpoint(run_);
  ASSERT_NE(saved, "");
  EXPECT_EQ(Checkpoint(saved).info().step, static_cast<i64>(log_of(run_).size()));
}

}  // namespace
}  // namespace lathe::train
