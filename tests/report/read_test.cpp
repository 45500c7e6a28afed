#include "lathe/report/read.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <thread>

#include "lathe/base/error.h"
#include "lathe/report/compare_fidelity.h"
#include "tests/report/run_folder.h"

namespace lathe::report {
namespace {

std::string error_of(const std::string& folder) {
  try {
    read_run(folder);
  } catch (const Error& e) {
    return e.report();
  }
  return {};
}

TEST(ReadRun, ReadsEveryFieldToTheBit) {
  const RunFolder run;
  run.write("log.jsonl",
            "{\"step\":1,\"loss\":8.317766166719343,\"grad_norm\":0.1,\"lr\":1e-5,\"tokens\":8192,"
            "\"seconds\":0.25,\"tokens_per_second\":32768,\"mfu\":0.5,\"rss\":1000,"
            "\"held_out_loss\":8.25,\"sample\":\"a\\nb\"}\n");
  const RunRecord r = read_run(run.path());
  ASSERT_EQ(r.steps.size(), 1U);
  const StepRecord& s = r.steps[0];
  EXPECT_EQ(s.step, 1);
  EXPECT_EQ(s.loss, 8.317766166719343);
  EXPECT_EQ(s.grad_norm, 0.1);
  EXPECT_EQ(s.lr, 1e-5);
  EXPECT_EQ(s.tokens, 8192);
  EXPECT_EQ(s.seconds, 0.25);
  EXPECT_EQ(s.tokens_per_second, 32768);
  EXPECT_EQ(s.mfu, 0.5);
  EXPECT_EQ(s.rss, 1000);
  EXPECT_EQ(s.held_out_loss, 8.25);
  ASSERT_EQ(r.samples.size(), 1U);
  EXPECT_EQ(r.samples[0].text, "a\nb");
}

TEST(ReadRun, LeavesOutALineThatACrashCutShort) {
  const RunFolder run;
  run.write("log.jsonl", "{\"step\":1,\"loss\":2}\n\n{\"step\":2,\"loss\":1}\n{\"step\":3,\"lo");
  const RunRecord r = read_run(run.path());
  EXPECT_EQ(r.steps.size(), 2U);
  EXPECT_EQ(r.unreadable_lines, 1);
  EXPECT_EQ(r.first_unreadable, 4);
}

TEST(ReadRun, TakesTheLaterLineOfAStepThatWasTakenAgain) {
  const RunFolder run;
  run.write("log.jsonl",
            "{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":2,\"sample\":\"old\"}\n"
            "{\"step\":3,\"loss\":9}\n{\"step\":2,\"loss\":2.5,\"sample\":\"new\"}\n");
  const RunRecord r = read_run(run.path());
  ASSERT_EQ(r.steps.size(), 2U);
  EXPECT_EQ(r.steps[1].loss, 2.5);
  ASSERT_EQ(r.samples.size(), 1U);
  EXPECT_EQ(r.samples[0].text, "new");
}

TEST(ReadRun, TakesWhatIsNoNumberAsAbsent) {
  const RunFolder run;
  run.write("log.jsonl", "{\"step\":1,\"loss\":null,\"grad_norm\":\"nan\",\"lr\":[]}\n");
  const RunRecord r = read_run(run.path());
  ASSERT_EQ(r.steps.size(), 1U);
  EXPECT_TRUE(std::isnan(r.steps[0].loss));
  EXPECT_TRUE(std::isnan(r.steps[0].grad_norm));
  EXPECT_TRUE(std::isnan(r.steps[0].lr));
}

TEST(ReadRun, AcceptsAnEmptyLog) {
  const RunFolder run;
  run.write("log.jsonl", "");
  EXPECT_TRUE(read_run(run.path()).steps.empty());
}

TEST(ReadRun, NamesWhatIsMissing) {
  const RunFolder run;
  EXPECT_NE(error_of(run.path() + "/nowhere").find("no run folder"), std::string::npos);
  EXPECT_NE(error_of(run.path()).find("log.jsonl"), std::string::npos);
}

TEST(ReadRun, RefusesALogThatIsNone) {
  const RunFolder run;
  run.write("log.jsonl", "hello\n[1,2]\n");
  EXPECT_NE(error_of(run.path()).find("log.jsonl:1"), std::string::npos);
}

TEST(ReadRun, SurvivesAnyCutOfTheLog) {
  const RunFolder run;
  const std::string log =
      "{\"step\":1,\"loss\":2.5,\"sample\":\"\xC3\xA9<\"}\n{\"step\":2,\"loss\":1.5}\n";
  for (std::size_t n = 0; n <= log.size(); ++n) {
    run.write("log.jsonl", log.substr(0, n));
    const bool readable = n == 0 || n + 1 >= log.find('\n') + 1;
    EXPECT_EQ(error_of(run.path()).empty(), readable) << n;
  }
}

// A pipe cannot be mapped. A trainer that starts again cuts its log, and a page that was mapped
// from what is gone then ends the process that touches it.
TEST(ReadRun, ReadsLogsAndDoesNotMapThem) {
  const RunFolder run;
  const std::string log = run.path() + "/log.jsonl", fidelity = run.path() + "/fidelity.jsonl";
  ASSERT_EQ(mkfifo(log.c_str(), 0600), 0);
  ASSERT_EQ(mkfifo(fidelity.c_str(), 0600), 0);
  std::thread writer([&] {
    run.write("log.jsonl", "{\"step\":1,\"loss\":2}\n");
    run.write("fidelity.jsonl", "{\"step\":1,\"layer\":\"a\",\"operand\":\"x\"}\n");
  });
  try {
    EXPECT_EQ(read_run(run.path()).steps.size(), 1U);
    EXPECT_EQ(read_fidelity(run.path())->layers.size(), 1U);
  } catch (const Error& e) {
    ADD_FAILURE() << e.report();
    for (const std::string& path : {log, fidelity}) open(path.c_str(), O_RDONLY | O_NONBLOCK);
  }
  writer.join();
}

TEST(ReadRun, ReadsThePredictionAndTheConfiguration) {
  const RunFolder run;
  run.write("log.jsonl", "{\"step\":1}\n");
  run.write("run.json",
            "{\"parameters\":1000,\"kernels\":\"avx2\",\"memory\":["
            "{\"name\":\"weights\",\"bytes\":4000},{\"name\":\"state\",\"bytes\":8000}]}");
  run.write("config.toml", "[train]\nsteps = 40\nsample_prompt = \"Once\"\n");
  const RunRecord r = read_run(run.path());
  EXPECT_EQ(r.parameters, 1000);
  ASSERT_EQ(r.memory.size(), 2U);
  EXPECT_EQ(r.memory[1].first, "state");
  EXPECT_EQ(r.memory[1].second, 8000);
  EXPECT_EQ(r.total_steps, 40);
  EXPECT_EQ(r.prompt, "Once");
}

TEST(ReadRun, ShowsAConfigurationThatNoLongerParses) {
  const RunFolder run;
  run.write("log.jsonl", "{\"step\":1}\n");
  run.write("config.toml", "[train\nsteps = ");
  const RunRecord r = read_run(run.path());
  EXPECT_EQ(r.config, "[train\nsteps = ");
  EXPECT_TRUE(std::isnan(r.total_steps));
}

}  // namespace
}  // namespace lathe::report
