#include "lathe/train/checkpoint.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <ios>
#include <string>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/numerics/recipe.h"
#include "lathe/numerics/recipe_text.h"
#include "lathe/train/manifest.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/tiny_model.h"

namespace lathe::train {
namespace {

namespace fs = std::filesystem;
using testing_support::TemporaryFolder;

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& e : fs::directory_iterator(folder)) names.push_back(e.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

void overwrite(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// What a whole checkpoint of the run gives back, as bytes; the report of the Error otherwise.
std::string loaded(const std::string& run, Pick pick = Pick::latest) {
  TinyModel m(99);
  try {
    const Checkpoint c(find_checkpoint(run, pick));
    c.read_weights(m.params);
    c.read_state(*m.optimizer);
  } catch (const Error& e) {
    return e.report();
  }
  return m.bytes();
}

TEST(Checkpoint, GivesBackEveryByteAndFact) {
  const TemporaryFolder run;
  const TinyModel m(1);
  CheckpointContents c = m.contents(50);
  overwrite(run / "tok.json", "{\"x\": 1}");
  c.tokenizer_path = run / "tok.json";
  const std::string folder = save_checkpoint(run.path(), c, 3);

  EXPECT_EQ(folder, run / "checkpoints/step-00000050");
  EXPECT_EQ(find_checkpoint(run.path()), folder);
  EXPECT_EQ(find_checkpoint(folder), folder);
  const Checkpoint back(folder);
  EXPECT_EQ(back.info().step, 50);
  EXPECT_EQ(back.info().sequences, 200);
  EXPECT_EQ(back.info().tokens, 5001);
  EXPECT_EQ(back.info().seconds, 0.1 * 50);
  EXPECT_EQ(back.info().results_hash, "abc");
  EXPECT_EQ(back.info().model.hidden, m.config.hidden);
  EXPECT_EQ(back.info().model.tied, m.config.tied);
  EXPECT_EQ(read_file(back.tokenizer_path()), "{\"x\": 1}");
  EXPECT_EQ(loaded(run.path()), m.bytes());
}

TEST(Checkpoint, KeepsTheEndingByWhichATokenizerIsRead) {
  const TemporaryFolder run;
  const TinyModel m(1);
  CheckpointContents c = m.contents(50);
  overwrite(run / "tok512.bin", "scores");
  c.tokenizer_path = run / "tok512.bin";
  const Checkpoint back(save_checkpoint(run.path(), c, 3));
  EXPECT_EQ(back.tokenizer_path(), back.folder() + "/tokenizer.bin");
  EXPECT_EQ(read_file(back.tokenizer_path()), "scores");
}

TEST(Checkpoint, ReadsNoFileThatItsManifestDoesNotName) {
  const TemporaryFolder run;
  const Checkpoint back(save_checkpoint(run.path(), TinyModel(1).contents(50), 3));
  overwrite(back.folder() + "/recipe.safetensors", "a stranger's");
  EXPECT_NO_THROW(back.read_recipe_state({}));
}

TEST(Checkpoint, RefusesAnotherWayOfStoringAndNamesTheKey) {
  const TemporaryFolder run;
  const TinyModel m(1);
  CheckpointContents c = m.contents(10);
  c.info.moments = "8bit";
  const Checkpoint back(save_checkpoint(run.path(), c, 3));
  EXPECT_NO_THROW(back.check_storage("8bit", "master"));
  const auto report = [&](const char* moments, const char* weights) {
    try {
      back.check_storage(moments, weights);
    } catch (const Error& e) {
      return e.report();
    }
    return std::string();
  };
  EXPECT_NE(report("fp32", "master").find("--set optimizer.moments=8bit"), std::string::npos);
  EXPECT_NE(report("8bit", "bf16").find("--set optimizer.weights=master"), std::string::npos);
}

TEST(Checkpoint, LoadsForInferenceWithoutTheRunFile) {
  const TemporaryFolder run;
  const TinyModel m(5);
  save_checkpoint(run.path(), m.contents(7), 3);
  const LoadedModel l = load_model(run.path());
  EXPECT_EQ(l.info.step, 7);
  ASSERT_EQ(l.params.count(), m.params.count());
  for (i64 i = 0; i < l.params.count(); ++i)
    for (i64 j = 0; j < l.params[i].spec.size(); ++j)
      EXPECT_EQ(l.params[i].master.row<float>(0)[j], m.params[i].master.row<float>(0)[j]);
}

TEST(Checkpoint, HoldsTheRecipeItWasTrainedIn) {
  const TemporaryFolder run;
  const TinyModel m(5);
  numerics::Recipe mine = numerics::recipe("nvfp4");
  mine.name = "mine";
  mine.linear.grad_w.b.hadamard = mine.linear.grad_w.a.hadamard = 32;
  CheckpointContents c = m.contents(7);
  c.info.recipe = mine.name;
  c.recipe_toml = numerics::to_toml(mine);
  const std::string folder = save_checkpoint(run.path(), c, 3);
  EXPECT_EQ(Checkpoint(folder).recipe(), mine);
  EXPECT_EQ(*load_model(run.path()).recipe, mine);
}

TEST(Checkpoint, WithoutARecipeFileWasTrainedInTheOneItNames) {
  const TemporaryFolder run;
  const std::string folder = save_checkpoint(run.path(), TinyModel(5).contents(7), 3);
  Manifest older = read_verified(folder);
  ASSERT_EQ(older.files.erase("recipe.toml"), 1U);
  overwrite(folder + "/" + kManifestName, to_text(older));
  fs::remove(folder + "/recipe.toml");
  EXPECT_EQ(Checkpoint(folder).recipe(), numerics::recipe("fp32"));
}

TEST(Checkpoint, KeepsTheNewestOnly) {
  const TemporaryFolder run;
  const TinyModel m(1);
  for (i64 step = 10; step <= 50; step += 10) save_checkpoint(run.path(), m.contents(step), 2);
  EXPECT_EQ(names_in(run / "checkpoints"),
            std::vector<std::string>({"latest", "step-00000040", "step-00000050"}));
  EXPECT_EQ(find_checkpoint(run.path(), Pick::previous), run / "checkpoints/step-00000040");
}

TEST(Checkpoint, RefusesEveryChangedByte) {
  const TemporaryFolder run;
  const std::string folder = save_checkpoint(run.path(), TinyModel(1).contents(1), 3);
  for (const std::string& name : names_in(folder)) {
    const std::string path = fmt::format("{}/{}", folder, name), whole = read_file(path);
    // Every byte of the small files, a sample of the large ones with both ends.
    const std::size_t stride = whole.size() < 3000 ? 1 : whole.size() / 400;
    for (std::size_t i = 0; i < whole.size(); i = i + stride) {
      std::string changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
      overwrite(path, changed);
      const std::string report = loaded(run.path());
      EXPECT_NE(report.find(path), std::string::npos) << name << " byte " << i << ": " << report;
    }
    overwrite(path, whole);
  }
  EXPECT_EQ(loaded(run.path()), TinyModel(1).bytes());
}

TEST(Checkpoint, RefusesEveryTruncationAndEveryMissingFile) {
  const TemporaryFolder run;
  const std::string folder = save_checkpoint(run.path(), TinyModel(1).contents(1), 3);
  for (const std::string& name : names_in(folder)) {
    const std::string path = fmt::format("{}/{}", folder, name), whole = read_file(path);
    for (const std::size_t n :
         {std::size_t{0}, std::size_t{1}, whole.size() / 2, whole.size() - 1}) {
      overwrite(path, whole.substr(0, n));
      EXPECT_NE(loaded(run.path()).find(path), std::string::npos) << name << " cut to " << n;
    }
    overwrite(path, whole + " ");
    EXPECT_NE(loaded(run.path()).find(path), std::string::npos) << name << " grown";
    fs::remove(path);
    // A folder without a manifest is not found to be a checkpoint by itself, but `latest` says so.
    EXPECT_NE(loaded(run.path()).find(path), std::string::npos) << name << " removed";
    overwrite(path, whole);
  }
}

TEST(Checkpoint, NamesTheDamagedFileAndUsesTheOneBeforeIfAsked) {
  const TemporaryFolder run;
  const TinyModel older(1), newer(2);
  save_checkpoint(run.path(), older.contents(10), 3);
  const std::string folder = save_checkpoint(run.path(), newer.contents(20), 3);
  overwrite(folder + "/model.safetensors", "damaged");
  EXPECT_NE(loaded(run.path()).find(folder + "/model.safetensors"), std::string::npos);
  EXPECT_NE(loaded(run.path()).find("--use-previous"), std::string::npos);
  EXPECT_EQ(loaded(run.path(), Pick::previous), older.bytes());

  // Going on from there writes over the damaged one.
  move_latest(run.path(), find_checkpoint(run.path(), Pick::previous));
  save_checkpoint(run.path(), newer.contents(20), 3);
  EXPECT_EQ(loaded(run.path()), newer.bytes());
}

TEST(Checkpoint, RefusesADamagedLatest) {
  const TemporaryFolder run;
  save_checkpoint(run.path(), TinyModel(1).contents(10), 3);
  const std::string latest = run / "checkpoints/latest";
  for (const char* text : {"", "step-", "step-00000010x", "../x", "step-00000011\n", "step-10\n"}) {
    overwrite(latest, text);
    EXPECT_NE(loaded(run.path()).find(latest), std::string::npos) << text;
  }
}

TEST(Checkpoint, OfAnotherModelNamesTheTensor) {
  const TemporaryFolder run;
  save_checkpoint(run.path(), TinyModel(1, tiny_model(16)).contents(10), 3);
  const std::string report = loaded(run.path());
  EXPECT_NE(report.find("embed.token"), std::string::npos) << report;
  EXPECT_NE(report.find("[16, 16]"), std::string::npos) << report;
  EXPECT_NE(report.find("[16, 8]"), std::string::npos) << report;
}

TEST(Checkpoint, OfNothingSaysSo) {
  const TemporaryFolder run;
  EXPECT_EQ(find_checkpoint(run.path()), "");
  EXPECT_THROW(load_model(run.path()), Error);
  EXPECT_THROW(load_model(run / "absent"), Error);
  save_checkpoint(run.path(), TinyModel(1).contents(10), 3);
  EXPECT_THROW(find_checkpoint(run.path(), Pick::previous), Error);
}

class Faults : public testing::TestWithParam<int> {
 protected:
  void TearDown() override { faults::clear(); }
};

TEST_P(Faults, AtAnyOperationLeaveAWholeCheckpointAndNothingElse) {
  const TinyModel older(1), newer(2);
  i64 operations = 0;
  {
    const TemporaryFolder run;
    save_checkpoint(run.path(), older.contents(10), 2);
    faults::clear();
    save_checkpoint(run.path(), newer.contents(20), 2);
    operations = faults::count();
  }
  ASSERT_GT(operations, 10);
  for (const bool forever : {false, true})
    for (i64 n = 0; n < operations; ++n) {
      const TemporaryFolder run;
      save_checkpoint(run.path(), older.contents(10), 2);
      faults::fail_any_after(n, GetParam(), forever);
      EXPECT_THROW(save_checkpoint(run.path(), newer.contents(20), 2), Error) << n;
      faults::clear();

      const std::string after = loaded(run.path());
      EXPECT_TRUE(after == older.bytes() || after == newer.bytes()) << n << ": " << after;
      for (const std::string& name : names_in(run / "checkpoints"))
        EXPECT_TRUE(name == "latest" || name.starts_with("step-")) << n << ": " << name;
      // The next try succeeds.
      save_checkpoint(run.path(), newer.contents(30), 2);
      EXPECT_EQ(loaded(run.path()), newer.bytes()) << n;
    }
}

INSTANTIATE_TEST_SUITE_P(Errors, Faults, testing::Values(ENOSPC, EIO));

TEST(Checkpoint, WhatACrashLeftIsRemovedAtTheNextStart) {
  const TemporaryFolder run;
  save_checkpoint(run.path(), TinyModel(1).contents(10), 3);
  fs::create_directories(run / "checkpoints/.tmp-step-00000020");
  overwrite(run / "checkpoints/.tmp-step-00000020/model.safetensors", "half");
  EXPECT_EQ(loaded(run.path()), TinyModel(1).bytes());
  remove_unfinished_checkpoints(run.path());
  EXPECT_EQ(names_in(run / "checkpoints"), std::vector<std::string>({"latest", "step-00000010"}));
}

TEST(Checkpoint, CompleteButNotYetLatestIsWrittenAgain) {
  const TemporaryFolder run;
  save_checkpoint(run.path(), TinyModel(1).contents(10), 3);
  const std::string newer = save_checkpoint(run.path(), TinyModel(2).contents(20), 3);
  move_latest(run.path(), run / "checkpoints/step-00000010");
  EXPECT_EQ(loaded(run.path()), TinyModel(1).bytes());
  EXPECT_EQ(save_checkpoint(run.path(), TinyModel(3).contents(20), 3), newer);
  EXPECT_EQ(loaded(run.path()), TinyModel(3).bytes());
}

}  // namespace
}  // namespace lathe::train
