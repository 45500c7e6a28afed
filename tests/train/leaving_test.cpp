// How a run ends before its last step: nothing may cost what it has reached.

#include <gtest/gtest.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"
#include "lathe/train/loop.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/signalled_run.h"
#include "tests/train/tiny_run.h"

namespace lathe::train {
namespace {

namespace fs = std::filesystem;
using testing_support::TemporaryFolder;

RunConfig short_run(const std::string& folder, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"train.steps=9", "train.checkpoint_every=0", "train.eval_every=0",
                             "schedule.warmup=0"});
  return tiny_run(folder, more);
}

/// A stream into a pipe that nobody reads.
std::FILE* broken_pipe() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(pipe(ends), 0);
  close(ends[0]);
  return fdopen(ends[1], "w");
}

/// The exit status of a run that may be ended by signals, 128 + the signal's number where one ended
/// it.
int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

i64 saved_step(const std::string& run) {
  const std::string folder = find_checkpoint(run);
  return folder.empty() ? 0 : Checkpoint(folder).info().step;
}

TEST(Leaving, ABrokenOutputCostsNoCheckpoint) {
  const TemporaryFolder folder;
  for (const auto& [action, code] : {std::pair{SIG_DFL, 0}, std::pair{SIG_IGN, 0}}) {
    const std::string run = folder / (action == SIG_DFL ? "default" : "ignored");
    const int status = status_of_process([&, action = action] {
      signal(SIGPIPE, action);
      const RaisingStream records(4, {SIGINT});
      const Outcome end =
          train(short_run(run), measure(short_run(run)),
                {.use_previous = false, .people = broken_pipe(), .records = records.file()});
      return end.how == Outcome::How::stopped ? 0 : 9;
    });
    EXPECT_EQ(code_of(status), code);
    EXPECT_EQ(saved_step(run), 4);
  }
}

TEST(Leaving, RecordsThatNobodyReadsEndNoRun) {
  const TemporaryFolder folder;
  const RunConfig c = short_run(folder / "run");
  const int status = status_of_process([&] {
    signal(SIGPIPE, SIG_DFL);
    std::FILE* nowhere = broken_pipe();
    train(c, measure(c), {.use_previous = false, .people = nowhere, .records = nowhere});
    return 0;
  });
  EXPECT_EQ(code_of(status), 0);
  EXPECT_EQ(saved_step(folder / "run"), 9);
}

// A terminal that is closed tells its processes more than once.
TEST(Leaving, ATerminalThatGoesAwayStopsTheRunAndCostsNoCheckpoint) {
  const TemporaryFolder folder;
  const RunConfig c = short_run(folder / "run");
  const int status = status_of_process([&] {
    signal(SIGHUP, SIG_DFL);
    const RaisingStream records(4, {SIGHUP, SIGHUP, SIGTERM});
    const Outcome end = train(
        c, measure(c), {.use_previous = false, .people = broken_pipe(), .records = records.file()});
    return end.how == Outcome::How::stopped ? 0 : 9;
  });
  EXPECT_EQ(code_of(status), 0);
  EXPECT_EQ(saved_step(folder / "run"), 4);
}

TEST(Leaving, UnderNohupATerminalThatGoesAwayIsNothing) {
  const TemporaryFolder folder;
  const RunConfig c = short_run(folder / "run");
  signal(SIGHUP, SIG_IGN);
  EXPECT_EQ(code_of(train_and_signal(c, 4, {SIGHUP})), 9);
  signal(SIGHUP, SIG_DFL);
  EXPECT_EQ(saved_step(folder / "run"), 9);
}

TEST(Leaving, ASecondRequestEndsTheProcessAtOnce) {
  const TemporaryFolder folder;
  const RunConfig c = short_run(folder / "run");
  EXPECT_EQ(code_of(train_and_signal(c, 4, {SIGINT, SIGTERM})), 128 + SIGTERM);
  EXPECT_EQ(saved_step(folder / "run"), 0);
}

TEST(Leaving, SignalsAreThenWhatTheyWere) {
  const TemporaryFolder folder;
  const auto handlers = [] {
    std::vector<void (*)(int)> all;
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
      struct sigaction a{};
      sigaction(number, nullptr, &a);
      all.push_back(a.sa_handler);
    }
    return all;
  };
  const auto before = handlers();
  train_quietly(short_run(folder / "run", {"train.steps=1"}));
  EXPECT_EQ(handlers(), before);
}

/// Shards whose tokenizer takes endlessly long over a row of the letter b.
std::string stuck_shards(const std::string& folder) {
  fs::copy(tiny_shards(), folder, fs::copy_options::recursive);
  auto j = nlohmann::json::parse(read_file(folder + "/tokenizer.json"));
  const nlohmann::json split{{"type", "Split"},
                             {"pattern", {{"Regex", "(?:b+)+c|[\\s\\S]"}}},
                             {"behavior", "Isolated"},
                             {"invert", false}};
  auto plain = j["pre_tokenizer"];
  plain["use_regex"] = false;
  j["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, plain}}};
  write_atomically(folder + "/tokenizer.json", j.dump());
  return folder;
}

TEST(Leaving, ASampleThatCannotBeMadeEndsNoRunAndIsToldOnce) {
  const TemporaryFolder folder;
  const RunConfig c = short_run(
      folder / "run", {"data.shards=" + stuck_shards(folder / "shards"), "train.eval_every=3",
                       "train.sample_prompt=" + std::string(60, 'b')});
  std::FILE* people = std::fopen((folder / "people").c_str(), "w");
  EXPECT_EQ(train(c, measure(c), {.use_previous = false, .people = people, .records = nullptr}).how,
            Outcome::How::finished);
  std::fclose(people);
  const std::string text = read_file(folder / "people");
  const std::size_t told = text.find("no sample");
  ASSERT_NE(told, std::string::npos) << text;
  EXPECT_EQ(text.find("no sample", told + 1), std::string::npos) << text;
  EXPECT_NE(text.find("PCRE2"), std::string::npos) << text;
  EXPECT_EQ(log_of(folder / "run").size(), 9u);
}

TEST(Leaving, WhateverEndsARunItsStepsAreSavedAndLogged) {
  const TemporaryFolder folder;
  const RunConfig c = short_run(folder / "run", {"train.fidelity_every=4"});
  ASSERT_EQ(code_of(train_and_signal(c, 2, {SIGTERM})), 0);
  fs::remove(folder / "run/fidelity.jsonl");
  fs::create_directories(folder / "run/fidelity.jsonl");
  EXPECT_NE(error_of(c).find("fidelity.jsonl"), std::string::npos);
  EXPECT_EQ(saved_step(folder / "run"), 4);
  EXPECT_EQ(log_of(folder / "run").size(), 4u);
  fs::remove(folder / "run/fidelity.jsonl");
  EXPECT_EQ(error_of(c), "");
  EXPECT_EQ(log_of(folder / "run").size(), 9u);
}

// Those before are of recipe.toml, config.toml and run.json, each with its folder.
TEST(Leaving, TheLogIsMadeDurableBeforeTheCheckpointThatClaimsItsSteps) {
  const TemporaryFolder folder;
  train_quietly(short_run(folder / "first"));  // the first to open shards syncs what it found
  const RunConfig c = short_run(folder / "run", {"train.checkpoint_every=3"});
  faults::clear();
  faults::fail_after(faults::Op::sync, 6, EIO);
  train_quietly(c);
  faults::clear();
  EXPECT_TRUE(exists(folder / "run/checkpoints/step-00000003"));
}

}  // namespace
}  // namespace lathe::train
