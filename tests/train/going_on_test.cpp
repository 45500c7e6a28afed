// A run that goes on in its folder: what it must notice there, and what it clears away.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <ios>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/data/ingest.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/config.h"
#include "lathe/train/manifest.h"
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

}  // namespace
}  // namespace lathe::train
