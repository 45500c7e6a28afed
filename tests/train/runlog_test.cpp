#include "lathe/train/runlog.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <ios>
#include <nlohmann/json.hpp>
#include <string>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "tests/support/temporary_folder.h"

namespace lathe::train {
namespace {

using testing_support::TemporaryFolder;

LogRecord record(i64 step) {
  LogRecord r;
  r.step = step;
  r.loss = 1.0 / static_cast<double>(step);
  return r;
}

TEST(RunLog, RealsReadBackToTheSameBits) {
  const Rng rng{.seed = 4};
  for (u64 i = 0; i < 2000; ++i) {
    const double x = std::bit_cast<double>(rng.word(i));
    if (!std::isfinite(x)) continue;
    LogRecord r;
    r.loss = x;
    const auto j = nlohmann::json::parse(to_json(r));
    EXPECT_EQ(std::bit_cast<u64>(j["loss"].get<double>()), std::bit_cast<u64>(x));
  }
}

TEST(RunLog, HoldsTheNamesThatOthersRead) {
  LogRecord r = record(3);
  r.held_out_loss = 2.5;
  r.sample = "a \"quoted\"\nline";
  const auto j = nlohmann::json::parse(to_json(r));
  for (const char* name : {"step", "loss", "grad_norm", "lr", "tokens", "seconds",
                           "tokens_per_second", "mfu", "rss", "held_out_loss", "sample"})
    EXPECT_TRUE(j.contains(name)) << name;
  EXPECT_FALSE(nlohmann::json::parse(to_json(record(3))).contains("held_out_loss"));
  EXPECT_EQ(j["sample"], "a \"quoted\"\nline");
}

TEST(RunLog, WritesASampleThatEndsInsideACharacter) {
  LogRecord r = record(1);
  r.sample = "half a char: \xe2\x82";
  EXPECT_NO_THROW(nlohmann::json::parse(to_json(r)));
}

TEST(RunLog, IsCutAfterTheStepThatTheRunGoesOnFrom) {
  const TemporaryFolder folder;
  {
    RunLog log(folder / "log.jsonl", 0);
    for (i64 s = 1; s <= 9; ++s) EXPECT_TRUE(log.add(record(s)));
  }
  {
    const RunLog log(folder / "log.jsonl", 5);
  }
  std::string want;
  for (i64 s = 1; s <= 5; ++s) want += to_json(record(s)) + "\n";
  EXPECT_EQ(read_file(folder / "log.jsonl"), want);
}

TEST(RunLog, ForgetsATornOrForeignLastLine) {
  const TemporaryFolder folder;
  const std::string good = to_json(record(1)) + "\n";
  for (const char* tail : {"{\"step\": 2, \"lo", "\xff\xfe\n", "{\"step\": 2}", "[]\n", "{}\n"}) {
    std::ofstream(folder / "log.jsonl", std::ios::trunc) << good << tail;
    RunLog log(folder / "log.jsonl", 5);
    log.add(record(2));
    EXPECT_EQ(read_file(folder / "log.jsonl"), good + to_json(record(2)) + "\n") << tail;
  }
}

TEST(RunLog, SaysWhereItCannotBeWritten) {
  const TemporaryFolder folder;
  EXPECT_THROW(RunLog(folder / "absent/log.jsonl", 0), Error);
}

}  // namespace
}  // namespace lathe::train
