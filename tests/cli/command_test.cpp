#include "lathe/cli/command.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/version.h"
#include "lathe/base/view.h"
#include "lathe/train/config.h"
#include "tests/cli/run_command.h"
#include "tests/support/temporary_folder.h"

namespace lathe::cli {
namespace {

struct EchoOptions {
  std::string word, fail;
  i64 times = 1;
};

void declare_echo(CLI::App& a, EchoOptions& o) {
  a.add_option("word", o.word, "what to say")->required();
  a.add_option("--times", o.times, "how often")->capture_default_str();
  a.add_option("--fail", o.fail, "how to fail");
}

int run_echo(const EchoOptions& o) {
  if (o.fail == "error") throw Error("it is broken").at("a.toml", 3).hint("mend it");
  if (o.fail == "memory") throw std::bad_alloc();
  if (o.fail == "other") throw std::runtime_error("something else");
  for (i64 i = 0; i < o.times; ++i) fmt::print("{}\n", o.word);
  return o.fail == "code" ? 7 : 0;
}

Result lathe(const std::vector<std::string>& arguments) {
  Commands c;
  c.add<EchoOptions>("echo", "say a word", "lathe echo hello\n", declare_echo, run_echo);
  add_plan(c);
  add_doctor(c);
  add_version(c);
  return run_command(c, arguments);
}

TEST(Commands, ResultsGoToStdoutAndTheCodeIsTheCommands) {
  const Result r = lathe({"echo", "hi", "--times", "2"});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.out, "hi\nhi\n");
  EXPECT_EQ(r.err, "");
  EXPECT_EQ(lathe({"echo", "hi", "--fail=code"}).code, 7);
}

TEST(Commands, AnErrorIsReportedOnStderrWithCodeTwo) {
  const Result r = lathe({"echo", "hi", "--fail", "error"});
  EXPECT_EQ(r.code, 2);
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(r.err, "error: it is broken\n  --> a.toml:3\n  hint: mend it\n");
}

TEST(Commands, LackOfMemoryAndErrorsOfLibrariesLookTheSame) {
  const Result memory = lathe({"echo", "hi", "--fail", "memory"});
  EXPECT_EQ(memory.code, 2);
  EXPECT_TRUE(has(memory.err, "more memory"));
  const Result other = lathe({"echo", "hi", "--fail", "other"});
  EXPECT_EQ(other.code, 2);
  EXPECT_EQ(other.err, "error: something else\n");
}

TEST(Commands, AnUnknownCommandSuggestsTheNearest) {
  EXPECT_EQ(lathe({"pln"}).err,
            "error: there is no command 'pln'\n  hint: did you mean lathe plan?\n");
  EXPECT_EQ(lathe({"xyzzy"}).err,
            "error: there is no command 'xyzzy'\n"
            "  hint: the commands are echo, plan, doctor, version\n");
  EXPECT_EQ(lathe({"pln"}).code, 2);
}

TEST(Commands, AnUnknownOptionSuggestsTheNearest) {
  const Result r = lathe({"echo", "hi", "--tims", "3"});
  EXPECT_EQ(r.code, 2);
  EXPECT_EQ(r.err, "error: lathe echo has no option --tims\n  hint: did you mean --times?\n");
  EXPECT_EQ(lathe({"echo", "--tims=3", "hi"}).err, r.err);
  EXPECT_EQ(lathe({"echo", "hi", "--zzzzz"}).err,
            "error: lathe echo has no option --zzzzz\n  hint: see: lathe echo --help\n");
  EXPECT_EQ(lathe({"--versoin"}).err,
            "error: lathe has no option --versoin\n  hint: did you mean --version?\n");
}

TEST(Commands, TooMuchTooLittleAndNoNumberAreErrors) {
  EXPECT_EQ(lathe({"echo", "hi", "ho"}).err,
            "error: lathe echo does not take the argument 'ho'\n  hint: see: lathe echo --help\n");
  for (const std::vector<std::string>& a : {std::vector<std::string>{"echo"},
                                            {"echo", "hi", "--times"},
                                            {"echo", "hi", "--times", "x"}}) {
    const Result r = lathe(a);
    EXPECT_EQ(r.code, 2);
    EXPECT_TRUE(r.err.starts_with("error: ")) << r.err;
    EXPECT_TRUE(has(r.err, "see: lathe echo --help")) << r.err;
  }
}

TEST(Commands, HelpListsCommandsAndExamples) {
  for (const std::vector<std::string>& a : {std::vector<std::string>{}, {"--help"}, {"-h"}}) {
    const Result r = lathe(a);
    EXPECT_EQ(r.code, 0);
    for (const char* word : {"echo", "plan", "doctor", "version", "--version", "lathe data"})
      EXPECT_TRUE(has(r.out, word)) << word << r.out;
  }
  const Result r = lathe({"echo", "--help"});
  EXPECT_EQ(r.code, 0);
  for (const char* word : {"say a word", "--times", "what to say", "lathe echo hello"})
    EXPECT_TRUE(has(r.out, word)) << word << r.out;
}

TEST(Commands, HelpIsAlsoAWord) {
  EXPECT_EQ(lathe({"help"}).out, lathe({"--help"}).out);
  EXPECT_EQ(lathe({"help", "echo"}).out, lathe({"echo", "--help"}).out);
  EXPECT_EQ(lathe({"help", "ecko"}).code, 2);
}

TEST(Commands, TheVersionIsPrinted) {
  EXPECT_EQ(lathe({"--version"}).out, "lathe " + std::string(kVersion) + "\n");
  EXPECT_EQ(lathe({"version"}).out, "lathe " + std::string(kVersion) + "\n");
  EXPECT_EQ(nlohmann::json::parse(lathe({"version", "--json"}).out)["version"], kVersion);
}

TEST(Commands, TheVersionIsThatOfTheBuild) {
  EXPECT_TRUE(has(read_file("CMakeLists.txt"), "VERSION " + std::string(kVersion) + " "));
}

class PlanCommand : public testing::Test {
 protected:
  std::string file(const std::string& text) {
    write_atomically(folder_ / "run.toml", text);
    return folder_ / "run.toml";
  }
  testing_support::TemporaryFolder folder_;
  const std::string small_ = "[model]\nvocab = 512\nlayers = 1\nwidth = 64\n";
};

TEST_F(PlanCommand, PrintsParametersMemoryAndWork) {
  const Result r = lathe({"plan", file(small_), "--set", "train.steps=10"});
  EXPECT_EQ(r.code, 0) << r.err;
  for (const char* word : {"parameters", "weights", "gradients", "state", "kept", "scratch",
                           "loader", "kernels", "total", "a step", "a token", "10 steps"})
    EXPECT_TRUE(has(r.out, word)) << word << r.out;
}

TEST_F(PlanCommand, OverridesMayStandAnywhere) {
  const std::string path = file(small_);
  const std::vector<std::vector<std::string>> ways{
      {"plan", path, "--set", "train.steps=10", "model.layers=2", "--json"},
      {"plan", "--json", "--set", "train.steps=10", "--set", "model.layers=2", path},
      {"plan", "--set=train.steps=10", "--set=model.layers=2", path, "--json"}};
  for (const auto& way : ways) {
    const Result r = lathe(way);
    ASSERT_EQ(r.code, 0) << r.err;
    const auto j = nlohmann::json::parse(r.out);
    EXPECT_EQ(j["steps"], 10);
    EXPECT_TRUE(has(j["config"], "layers = 2"));
  }
}

TEST_F(PlanCommand, BadRunFilesEndWithCodeTwoAndTheirLine) {
  const std::string path = file(small_ + "heds = 4\n");
  const Result r = lathe({"plan", path});
  EXPECT_EQ(r.code, 2);
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(r.err, "error: there is no key model.heds\n  --> " + path +
                       ":5\n  hint: did you mean model.heads?\n");
  EXPECT_EQ(lathe({"plan", folder_ / "none.toml"}).code, 2);
  EXPECT_EQ(lathe({"plan", folder_.path()}).code, 2);
  EXPECT_EQ(lathe({"plan"}).code, 2);
  EXPECT_EQ(lathe({"plan", file(small_), "--set", "oops"}).code, 2);
  EXPECT_EQ(lathe({"plan", file("")}).code, 2);  // no vocabulary anywhere
}

TEST_F(PlanCommand, WhatDoesNotFitIsARemarkWithWhatWould) {
  const Result r = lathe({"plan", file(small_), "--set", "model.context=1024", "--set",
                          "train.global_batch=1048576", "--set", "train.micro_batch=1048576"});
  EXPECT_EQ(r.code, 0);
  EXPECT_TRUE(has(r.err, "warning: not enough memory")) << r.err;
  EXPECT_TRUE(has(r.err, "--set train.micro_batch=")) << r.err;
}

TEST_F(PlanCommand, KeysAreListedForPeopleAndPrograms) {
  EXPECT_EQ(lathe({"plan", "--keys"}).out, train::reference_toml());
  const auto j = nlohmann::json::parse(lathe({"plan", "--keys", "--json"}).out);
  EXPECT_EQ(j.size(), train::reference().size());
  EXPECT_EQ(j[0]["key"], "run.folder");
}

TEST(Doctor, LooksAtEverythingAndSaysWhatToType) {
  const Result r = lathe({"doctor"});
  EXPECT_EQ(r.code, 0);
  for (const char* word :
       {"cpu", "cores", "kernels", "amx", "memory", "huge pages", "/dev/shm", "mpi"})
    EXPECT_TRUE(has(r.out, word)) << word;
  const auto j = nlohmann::json::parse(lathe({"doctor", "--json"}).out);
  for (const auto& finding : j)
    for (const char* key : {"what", "found", "missing", "type"}) EXPECT_TRUE(finding.contains(key));
}

}  // namespace
}  // namespace lathe::cli
