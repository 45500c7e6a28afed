// Which checkpoint a run goes on from.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <ios>
#include <string>
#include <thread>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/train/checkpoint.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/tiny_model.h"

namespace lathe::train {
namespace {

namespace fs = std::filesystem;
using testing_support::TemporaryFolder;

/// A run folder with checkpoints of these steps, the last one the latest.
class Latest : public testing::Test {
 protected:
  void save(std::initializer_list<i64> steps) {
    for (const i64 step : steps) save_checkpoint(run_.path(), model_.contents(step), 9);
  }
  void damage(const std::string& name) {
    std::ofstream(run_ / ("checkpoints/" + name + "/model.safetensors"), std::ios::app) << "x";
  }
  /// The name of what is found, or the report of the Error.
  std::string found(Pick pick = Pick::latest) const {
    try {
      return fs::path(find_checkpoint(run_.path(), pick)).filename();
    } catch (const Error& e) {
      return e.report();
    }
  }
  TemporaryFolder run_;
  const TinyModel model_{1};
  const std::string latest_ = run_ / "checkpoints/latest";
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(Latest, ThatCannotBeLookedAtIsAnErrorAndNoNewRun) {
  save({10});
  fs::remove(latest_);
  fs::create_symlink("latest", latest_);  // to itself
  EXPECT_TRUE(has(found(), latest_)) << found();
}

TEST_F(Latest, ThatIsMissingBesideCheckpointsIsAnErrorThatSaysHowToMendIt) {
  save({10, 20, 30});
  fs::remove(latest_);
  const std::string report = found();
  EXPECT_TRUE(has(report, latest_)) << report;
  EXPECT_TRUE(has(report, "echo step-00000030 > ")) << report;
  EXPECT_TRUE(has(found(Pick::previous), "echo step-00000030 > "));
  std::ofstream(latest_) << "step-00000030\n";
  EXPECT_EQ(found(), "step-00000030");
}

// So does a run that dies between its first checkpoint and the first `latest` leave it.
TEST_F(Latest, ThatIsMissingBesideTheOnlyCheckpointIsThatOne) {
  save({10});
  fs::remove(latest_);
  EXPECT_EQ(found(), "step-00000010");
}

TEST_F(Latest, OfNoCheckpointAtAllIsNone) {
  EXPECT_EQ(found(), "");
  fs::create_directories(run_ / "checkpoints/.tmp-step-00000010");
  EXPECT_EQ(found(), "");
}

TEST_F(Latest, TheOneBeforeItIsTheNewestThatIsWhole) {
  save({10, 20, 30, 40});
  for (const char* name : {"step-00000030", "step-00000020"}) damage(name);
  testing::internal::CaptureStderr();
  EXPECT_EQ(found(Pick::previous), "step-00000010");
  const std::string told = testing::internal::GetCapturedStderr();
  for (const char* name : {"step-00000030", "step-00000020"}) EXPECT_TRUE(has(told, name)) << told;
  damage("step-00000010");
  const std::string report = found(Pick::previous);
  EXPECT_TRUE(has(report, "no whole checkpoint before step-00000040")) << report;
}

TEST_F(Latest, OneCheckpointHasNoneBeforeIt) {
  save({10, 20});
  const std::string one = run_ / "checkpoints/step-00000020";
  EXPECT_EQ(find_checkpoint(one), one);
  EXPECT_THROW(find_checkpoint(one, Pick::previous), Error);
}

// The manifest is a pipe, so that its reader waits while another checkpoint takes its place.
TEST_F(Latest, AModelThatIsReplacedWhileItIsReadIsReadAgain) {
  save({10});
  const std::string manifest = run_ / "checkpoints/step-00000010/manifest.json";
  const std::string text = read_file(manifest);
  fs::remove(manifest);
  ASSERT_EQ(mkfifo(manifest.c_str(), 0600), 0);
  std::thread trainer([&] {
    std::ofstream to(manifest);
    save_checkpoint(run_.path(), model_.contents(20), 1);
    to << text;
  });
  try {
    EXPECT_EQ(load_model(run_.path()).info.step, 20);
  } catch (const Error& e) {
    ADD_FAILURE() << e.report();
  }
  trainer.join();
}

}  // namespace
}  // namespace lathe::train
