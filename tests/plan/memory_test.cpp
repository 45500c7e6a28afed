#include "lathe/plan/memory.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/error.h"
#include "lathe/base/units.h"
#include "lathe/base/view.h"
#include "lathe/plan/machine.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"

namespace lathe::plan {
namespace {

train::RunConfig config(const std::vector<std::string>& overrides = {}) {
  return train::read_run(ConfigFile::parse(
      "[run]\nthreads = 1\n[model]\nvocab = 512\nlayers = 3\nwidth = 64\nheads = 4\ncontext = 64\n"
      "[train]\nglobal_batch = 24\nmicro_batch = 24\n",
      "run.toml", overrides));
}

i64 whole_process(const train::RunConfig& c) { return train::measure(c).total() + kProcessBytes; }

Memory machine(i64 bytes) {
  Memory m;
  m.available = bytes;
  return m;
}

TEST(Memory, ARunThatFitsToTheByteIsLetThrough) {
  const train::RunConfig c = config();
  const train::Footprint f = train::measure(c);
  EXPECT_NO_THROW(check_memory(c, f, machine(whole_process(c))));
  EXPECT_THROW(check_memory(c, f, machine(whole_process(c) - 1)), Error);
}

TEST(Memory, RoomForSomethingElseIsCountedToTheByteToo) {
  EXPECT_NO_THROW(check_room("a context of 8 tokens", 4096, machine(4096)));
  try {
    check_room("a context of 8 tokens", 4097, machine(4096));
    FAIL() << "there was room";
  } catch (const Error& e) {
    EXPECT_NE(e.report().find("a context of 8 tokens needs " + bytes_text(4097)), std::string::npos)
        << e.report();
  }
}

TEST(Memory, AMachineThatTellsNothingIsTrusted) {
  const train::RunConfig c = config();
  EXPECT_NO_THROW(check_memory(c, train::measure(c), Memory{}));
}

TEST(Memory, WhatIsOfferedFitsAndTheNextLargerDoesNot) {
  const train::RunConfig c = config();
  for (const i64 target : {12, 8, 6, 4, 3, 2, 1}) {
    train::RunConfig trial = c;
    trial.train.micro_batch = target;
    const i64 bytes = whole_process(trial);
    const std::optional<Fit> fit = largest_fit(c, bytes);
    ASSERT_TRUE(fit.has_value()) << target;
    EXPECT_EQ(fit->micro_batch, target);
    EXPECT_EQ(fit->recompute, "none");
    EXPECT_EQ(fit->bytes, bytes);
  }
}

TEST(Memory, WhereNoMicroBatchFitsMoreIsRecomputed) {
  train::RunConfig c = config({"train.micro_batch=1"});
  const i64 plain = whole_process(c);
  const std::optional<Fit> fit = largest_fit(c, plain - 1);
  ASSERT_TRUE(fit.has_value());
  EXPECT_NE(fit->recompute, "none");
  c.train.recompute = fit->recompute;
  EXPECT_EQ(whole_process(c), fit->bytes);
  EXPECT_LT(fit->bytes, plain);
}

TEST(Memory, TheErrorSaysNeedHaveAndWhatToType) {
  const train::RunConfig c = config();
  train::RunConfig half = c;
  half.train.micro_batch = 12;
  try {
    check_memory(c, train::measure(c), machine(whole_process(half)));
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("not enough memory"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("free memory"), std::string::npos);
    EXPECT_NE(e.hint().find("--set train.micro_batch=12 fits"), std::string::npos) << e.hint();
  }
}

TEST(Memory, WhereNothingFitsTheLeastIsTold) {
  const train::RunConfig c = config();
  EXPECT_FALSE(largest_fit(c, 1000).has_value());
  try {
    check_memory(c, train::measure(c), machine(1000));
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(e.hint().find("even train.micro_batch = 1"), std::string::npos) << e.hint();
  }
}

}  // namespace
}  // namespace lathe::plan
