// From text files to a report by the commands alone, as a user types them.

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "lathe/base/file.h"
#include "lathe/cli/command.h"
#include "tests/cli/run_command.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/tiny_run.h"

namespace lathe::cli {
namespace {

using Json = nlohmann::json;

Result lathe(const std::vector<std::string>& arguments) {
  Commands c;
  add_data(c);
  add_train(c);
  add_eval(c);
  add_sample(c);
  add_report(c);
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
steps = 12
global_batch = 4
micro_batch = 2
eval_every = 6
eval_sequences = 4
checkpoint_every = 6
sample_tokens = 4
)";

/// One folder with text, and with what each command makes of it.
class Journey : public testing::Test {
 protected:
  Journey() {
    train::write_text(folder_ / "text", 60);
    write_atomically(folder_ / "run.toml", kRun);
  }

  Result data() const {
    return lathe({"data", folder_ / "text", "--vocab", "280", "--out", folder_ / "shards"});
  }
  Result train(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> a{
        "train", folder_ / "run.toml",  "--set", "data.shards=" + folder_ / "shards",
        "--set", "run.folder=" + run(), "--set", "run.threads=1"};
    a.insert(a.end(), more.begin(), more.end());
    return lathe(a);
  }
  std::string run() const { return folder_ / "run"; }

  testing_support::TemporaryFolder folder_;
};

TEST_F(Journey, EveryCommandGoesOnWhereTheOneBeforeItEnded) {
  const Result data = this->data();
  ASSERT_EQ(data.code, 0) << data.err;
  EXPECT_TRUE(has(data.out, "documents  60"));
  EXPECT_TRUE(has(data.out, "vocabulary 280"));
  EXPECT_TRUE(has(this->data().out, "nothing to do"));

  const Result trained = train();
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(has(trained.out, "layers = 1"));  // the resolved settings
  EXPECT_TRUE(has(trained.out, "gradients"));   // the memory
  EXPECT_TRUE(has(trained.out, "lathe sample " + run()));
  EXPECT_TRUE(has(train().out, "this run is finished: 12 of 12 steps"));

  const Result eval = lathe({"eval", run(), folder_ / "text", "--threads", "1"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_TRUE(has(eval.out, "bits per byte"));
  const std::vector<std::string> say{"sample", run(),    "--prompt", "the cat",   "--tokens",
                                     "8",      "--seed", "3",        "--threads", "1"};
  const Result sample = lathe(say);
  ASSERT_EQ(sample.code, 0) << sample.err;
  EXPECT_TRUE(sample.out.starts_with("the cat"));
  EXPECT_EQ(lathe(say).out, sample.out);
  const Result report = lathe({"report", run(), "--svg", folder_ / "charts"});
  ASSERT_EQ(report.code, 0) << report.err;
  EXPECT_EQ(report.out, run() + "/report.html\n");
  EXPECT_TRUE(has(read_file(run() + "/report.html"), "</html>"));
  EXPECT_TRUE(has(read_file(folder_ / "charts/loss.svg"), "<svg"));
}

TEST_F(Journey, ProgramsReadWhatPeopleRead) {
  const Result data =
      lathe({"data", folder_ / "text", "--vocab", "280", "--out", folder_ / "shards", "--json"});
  ASSERT_EQ(data.code, 0) << data.err;
  EXPECT_EQ(Json::parse(data.out)["vocab"], 280);

  const Result trained = train({"--json"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  std::vector<Json> lines;
  std::istringstream text(trained.out);
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  ASSERT_EQ(lines.size(), 13U);  // a line a step, and the end
  EXPECT_EQ(lines[11]["step"], 12);
  EXPECT_EQ(lines[12]["event"], "finished");

  const std::string checkpoint = lines[12]["checkpoint"];
  const Json eval =
      Json::parse(lathe({"eval", checkpoint, folder_ / "text", "--threads", "1", "--json"}).out);
  EXPECT_EQ(eval["step"], 12);
  EXPECT_EQ(eval["documents"], 60);
  EXPECT_EQ(eval["perplexity"].get<double>(), std::exp(eval["loss"].get<double>()));
  const Json sample =
      Json::parse(lathe({"sample", checkpoint, "--tokens", "5", "--threads", "1", "--json"}).out);
  EXPECT_LE(sample["tokens"], 5);
  const Json report = Json::parse(lathe({"report", run(), "--json"}).out);
  EXPECT_EQ(report["steps"], 12);
  EXPECT_FALSE(exists(run() + "/report.html"));
}

TEST_F(Journey, MistakesEndWithCodeTwoAndLeaveNothing) {
  const Result none = lathe({"data", folder_ / "none", "--out", folder_ / "shards"});
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(has(none.err, folder_ / "none")) << none.err;
  EXPECT_FALSE(exists(folder_ / "shards"));

  const Result no_data = train();
  EXPECT_EQ(no_data.code, 2);
  EXPECT_TRUE(has(no_data.err, "lathe data")) << no_data.err;
  EXPECT_FALSE(exists(run()));

  ASSERT_EQ(data().code, 0);
  EXPECT_EQ(train({"--set", "train.recipe=bf15"}).code, 2);
  EXPECT_FALSE(exists(run()));
  for (const char* command : {"eval", "sample", "report"}) {
    std::vector<std::string> a{command, run()};
    if (std::string(command) == "eval") a.push_back(folder_ / "text");
    const Result r = lathe(a);
    EXPECT_EQ(r.code, 2) << command;
    EXPECT_TRUE(has(r.err, run())) << r.err;
  }
}

}  // namespace
}  // namespace lathe::cli
