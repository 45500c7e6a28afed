// A run that goes on in its folder: what it must notice there, and what it clears away.

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <ios>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/data/ingest.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"
#include "lathe/train/loop.h"
#include "lathe/train/manifest.h"
#include "lathe/train/run_folder.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/signalled_run.h"
#include "tests/train/tiny_run.h"

namespace lathe::train {
namespace {

namespace fs = std::filesystem;
using testing_support::TemporaryFolder;

class GoingOn : public testing::Test {
 protected:
  RunConfig run(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"train.steps=12", "train.checkpoint_every=4", "train.eval_every=0",
                               "schedule.warmup=0"});
    return tiny_run(run_, more);
  }
  /// Names of the checkpoints, ascending.
  std::vector<std::string> checkpoints() const {
    std::vector<std::string> names;
    for (const auto& e : fs::directory_iterator(run_ + "/checkpoints"))
      if (e.is_directory()) names.push_back(e.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(run_);
    std::ofstream(run_ + "/" + name, std::ios::trunc) << text;
  }
  TemporaryFolder folder_;
  const std::string run_ = folder_ / "run";
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Shards in `out` of the first documents of a text, with the tiny run's tokenizer.
void make_shards(const std::string& out, const std::string& text, int documents) {
  write_text(text, documents);
  fs::copy_file(tiny_shards() + "/tokenizer.json", text + ".json",
                fs::copy_options::overwrite_existing);
  data::IngestOptions o;
  o.paths = {text};
  o.out = out;
  o.tokenizer = text + ".json";
  o.held_out = 0.1;
  o.force = true;
  data::ingest(o);
}

TEST_F(GoingOn, WithOtherTokensIsRefusedWithTheirFolderAndWhatToDo) {
  const std::string shards = folder_ / "shards";
  make_shards(shards, folder_ / "text", 60);
  const RunConfig c = run({"data.shards=" + shards});
  ASSERT_EQ(WEXITSTATUS(train_and_signal(c, 5, {SIGTERM})), 0);
  make_shards(shards, folder_ / "other", 50);
  const std::string report = error_of(c);
  EXPECT_TRUE(has(report, "tokens")) << report;
  EXPECT_TRUE(has(report, "--> " + shards)) << report;
  EXPECT_TRUE(has(report, "--set run.folder=")) << report;
  make_shards(shards, folder_ / "text", 60);
  EXPECT_EQ(error_of(c), "");
}

TEST_F(GoingOn, FromACheckpointThatDoesNotNameItsTokensIsAccepted) {
  ASSERT_EQ(WEXITSTATUS(train_and_signal(run(), 5, {SIGTERM})), 0);
  const std::string folder = find_checkpoint(run_), state = folder + "/state.json";
  auto j = nlohmann::ordered_json::parse(read_file(state));
  ASSERT_EQ(j.erase("tokens_hash"), 1u);
  const std::string older = j.dump(2) + "\n";
  Manifest m = read_verified(folder);
  m.files["state.json"] = {static_cast<i64>(older.size()), hash_hex(older)};
  write_atomically(state, older);
  write_atomically(folder + "/" + kManifestName, to_text(m));
  EXPECT_EQ(error_of(run()), "");
  EXPECT_TRUE(has(read_file(find_checkpoint(run_) + "/state.json"), "tokens_hash"));
}

TEST_F(GoingOn, LongerUnderAConstantScheduleSaysSoInItsCheckpoints) {
  train_quietly(run({"schedule.name=constant", "train.steps=4"}));
  train_quietly(run({"schedule.name=constant", "train.steps=8"}));
  EXPECT_EQ(Checkpoint(find_checkpoint(run_)).info().steps, 8);
}

TEST_F(GoingOn, FromItsOnlyCheckpointWritesLatestAgain) {
  ASSERT_EQ(WEXITSTATUS(train_and_signal(run(), 3, {SIGTERM})), 0);
  fs::remove(run_ + "/checkpoints/latest");
  ASSERT_EQ(WTERMSIG(train_and_signal(run(), 1, {SIGKILL})), SIGKILL);
  EXPECT_EQ(log_of(run_).size(), 4u);
  EXPECT_EQ(read_file(run_ + "/checkpoints/latest"), "step-00000003\n");
}

TEST_F(GoingOn, FromAnEarlierCheckpointRemovesThoseAfterItThatAreDamaged) {
  const RunConfig c = run({"train.keep_checkpoints=9"});
  train_quietly(c);
  for (const char* name : {"step-00000008", "step-00000012"})
    std::ofstream(run_ + "/checkpoints/" + name + "/model.safetensors", std::ios::app) << "x";
  const int status = status_of_process([&] {
    const RaisingStream records(1, {SIGKILL});
    train(
        c, measure(c),
        {.use_previous = true, .people = std::fopen("/dev/null", "w"), .records = records.file()});
    return 0;
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(log_of(run_).size(), 5u);
  EXPECT_EQ(checkpoints(), std::vector<std::string>({"step-00000004"}));
}

TEST_F(GoingOn, KeepsNoMoreCheckpointsThanItNowShould) {
  train_quietly(run());
  ASSERT_EQ(checkpoints().size(), 3u);
  EXPECT_EQ(train_quietly(run({"train.keep_checkpoints=1"})).how, Outcome::How::was_finished);
  EXPECT_EQ(checkpoints(), std::vector<std::string>({"step-00000012"}));
}

TEST_F(GoingOn, RemovesWhatACrashLeftAndNothingElse) {
  train_quietly(run({"train.steps=1"}));
  const std::vector<std::string> ours{"config.toml.tmp-123", "recipe.toml.tmp-7", "run.json.tmp-99",
                                      "checkpoints/latest.tmp-5"};
  const std::vector<std::string> others{"notes.tmp-1", "config.toml.tmp-mine", "log.jsonl.tmp-"};
  for (const auto& names : {ours, others})
    for (const std::string& name : names) write(name, "half");
  train_quietly(run({"train.steps=1"}));
  for (const std::string& name : ours) EXPECT_FALSE(exists(run_ + "/" + name)) << name;
  for (const std::string& name : others) EXPECT_TRUE(exists(run_ + "/" + name)) << name;
}

/// The run of a file that lies in its own run folder under the name of the resolved one.
RunConfig run_of_its_own_file(const std::string& run, const std::string& text) {
  fs::create_directories(run);
  std::ofstream(run + "/config.toml", std::ios::trunc) << text;
  return read_run(ConfigFile::read(run + "/config.toml"));
}

TEST_F(GoingOn, NeverWritesOverAUsersOwnRunFile) {
  const std::string text = "# mine\n[run]\nfolder = \"" + run_ + "\"\n[data]\nshards = \"" +
                           tiny_shards() + "\"\n[model]\nlayers = 1\nwidth = 32\nheads = 4\n" +
                           "context = 40\n[train]\nsteps = 1\nsample_tokens = 0\n";
  const RunConfig c = run_of_its_own_file(run_, text);
  const std::string report = error_of(c);
  EXPECT_TRUE(has(report, run_ + "/config.toml")) << report;
  EXPECT_TRUE(has(report, "--set run.folder=")) << report;
  EXPECT_EQ(read_file(run_ + "/config.toml"), text);
  EXPECT_EQ(error_of(run()).substr(0, report.find('\n')), report.substr(0, report.find('\n')));
  EXPECT_EQ(read_file(run_ + "/config.toml"), text);
}

TEST_F(GoingOn, NeverTrainsInACheckpoint) {
  train_quietly(run({"train.steps=1"}));
  const std::string checkpoint = find_checkpoint(run_);
  const std::string before = read_file(checkpoint + "/config.toml");
  EXPECT_TRUE(has(error_of(tiny_run(checkpoint)), "one checkpoint"))
      << error_of(tiny_run(checkpoint));
  EXPECT_EQ(read_file(checkpoint + "/config.toml"), before);
}

TEST_F(GoingOn, NeverWritesOverAUsersOwnRecipe) {
  write("recipe.toml", "# mine\nbase = \"bf16\"\n");
  const RunConfig c = run({"train.recipe=" + run_ + "/recipe.toml"});
  EXPECT_TRUE(has(error_of(c), run_ + "/recipe.toml")) << error_of(c);
  EXPECT_EQ(read_file(run_ + "/recipe.toml"), "# mine\nbase = \"bf16\"\n");
}

TEST_F(GoingOn, WithACheckpointOfOtherSettingsIsRefusedWithTheKeysAndNothingIsWritten) {
  ASSERT_EQ(WEXITSTATUS(train_and_signal(run(), 5, {SIGTERM})), 0);
  std::string config = read_file(run_ + "/config.toml");
  const std::size_t lr = config.find("\nlr = ");
  ASSERT_NE(lr, std::string::npos);
  config.replace(lr, config.find('\n', lr + 1) - lr, "\nlr = 0.5");
  write_atomically(run_ + "/config.toml", config);
  const std::string report = error_of(run({"optimizer.lr=0.5"}));
  EXPECT_TRUE(has(report, "optimizer.lr (0.01 there, 0.5 now)")) << report;
  EXPECT_TRUE(has(report, "/checkpoints/step-")) << report;
  EXPECT_EQ(read_file(run_ + "/config.toml"), config);
}

TEST_F(GoingOn, FromThePreviousCheckpointNeedsNothingOfTheLatest) {
  for (const char* damage : {"not = [toml", ""}) {
    fs::remove_all(run_);
    train_quietly(run({"train.steps=20"}));
    const std::string latest = find_checkpoint(run_);
    if (*damage)
      write_atomically(latest + "/config.toml", damage);
    else
      fs::remove_all(latest);
    EXPECT_NE(error_of(run({"train.steps=20"})), "");
    EXPECT_EQ(train_quietly(run({"train.steps=20"}), true).step, 20);
  }
}

TEST_F(GoingOn, AStartThatWasCutShortIsStartedAgainEvenOtherwise) {
  {
    const RunFolder first(run());
    first.write_settings(run());
  }
  EXPECT_NO_THROW(RunFolder(read_run(ConfigFile::read(run_ + "/config.toml"))));
  fs::remove(run_ + "/config.toml");
  EXPECT_NO_THROW(RunFolder(run({"optimizer.lr=0.5"})));
  EXPECT_NO_THROW(RunFolder(run({"train.recipe=fp32"})));
}

}  // namespace
}  // namespace lathe::train
