#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "lathe/cli/command.h"
#include "tests/cli/run_command.h"

namespace lathe::cli {
namespace {

using Json = nlohmann::json;

Result number(std::vector<std::string> arguments, const std::string& input = "") {
  Commands c;
  add_number(c);
  arguments.insert(arguments.begin(), "number");
  std::istringstream in(input);
  std::streambuf* const before = std::cin.rdbuf(in.rdbuf());
  std::cin.clear();
  const Result r = run_command(c, arguments);
  std::cin.rdbuf(before);
  return r;
}

std::vector<Json> lines(const std::string& text) {
  std::vector<Json> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(Json::parse(line));
  return out;
}

TEST(Number, EachLineOfStandardInputBecomesOneObject) {
  const Result r = number({"--format", "e4m3", "--json"}, "17\n\n 0x1.2p4 \n0x7e\n-inf\nnan\n-0\n");
  ASSERT_EQ(r.code, 0) << r.err;
  const std::vector<Json> l = lines(r.out);
  ASSERT_EQ(l.size(), 6u);
  EXPECT_EQ(l[0]["input"], 17);
  EXPECT_EQ(l[0]["code"], "0x58");
  EXPECT_EQ(l[0]["value"], 16);
  EXPECT_EQ(l[0]["error"], -1);
  EXPECT_EQ(l[0]["below"], 15);
  EXPECT_EQ(l[0]["above"], 18);
  EXPECT_EQ(l[1]["code"], "0x59");
  EXPECT_EQ(l[2]["value"], 448);
  EXPECT_TRUE(l[2]["above"].is_null());
  EXPECT_EQ(l[3]["input"], "-inf");
  EXPECT_EQ(l[3]["value"], -448);
  EXPECT_TRUE(l[3]["error"].is_null());
  EXPECT_EQ(l[4]["code"], "0x7f");
  EXPECT_EQ(l[4]["value"], "nan");
  EXPECT_EQ(l[5]["code"], "0x80");
  EXPECT_TRUE(has(r.out, "\"input\":-0.0,\"code\":\"0x80\",\"value\":-0.0")) << r.out;
}

TEST(Number, WhatWouldBeIgnoredIsRefused) {
  EXPECT_TRUE(has(number({"--table", "e4m3", "1"}).err, "takes no values"));
  EXPECT_TRUE(
      has(number({"--block", "mxfp8", "--overflow", "nonsaturate", "500"}).err, "always saturate"));
  EXPECT_TRUE(has(number({"--format", "e4m3", "-inf"}).err, "goes behind --"));
}

TEST(Number, ACodeWithASignIsNoNumber) {
  const Result r = number({"--format", "e4m3", "--json"}, "-0x7e\n");
  EXPECT_EQ(r.code, 2);
  EXPECT_TRUE(has(r.err, "code with a sign")) << r.err;
  EXPECT_TRUE(has(r.err, "-0x7ep0")) << r.err;
  EXPECT_EQ(lines(number({"--format", "e4m3", "--json"}, "-0x7ep0\n").out).at(0)["value"], -128);
}

TEST(Number, AMarkOfUtf8BeforeTheFirstLineIsNoPartOfIt) {
  EXPECT_EQ(lines(number({"--format", "e4m3", "--json"},
                         "\xef\xbb\xbf"
                         "17\n")
                      .out)[0]["value"],
            16);
}

TEST(Number, ADecimalStandsForTheNearestDoubleWhichIsRoundedOnce) {
  const std::vector<Json> l = lines(
      number({"--format", "e4m3", "--json", "17.000000000000004", "17", "16.999999999999996"}).out);
  EXPECT_EQ(l.at(0)["code"], "0x59") << "a tie in FP32";
  EXPECT_EQ(l.at(1)["code"], "0x58");
  EXPECT_EQ(l.at(2)["code"], "0x58");
  // A midpoint of BF16 in the shortest decimal that reads back as it, which lies beside it.
  EXPECT_EQ(lines(number({"--format", "bf16", "--json", "--", "-2.957532290621438e+38"}).out)
                .at(0)["code"],
            "0xff5e");
  EXPECT_EQ(lines(number({"--format", "e4m3", "--json", "--tie", "away", "17"}).out).at(0)["code"],
            "0x59");
}

TEST(Number, CodesAreAsWideAsTheFormat) {
  for (const auto& [format, code] :
       std::vector<std::pair<std::string, std::string>>{{"e2m1", "0x2"},
                                                        {"e2m3", "0x08"},
                                                        {"hif8", "0x08"},
                                                        {"bf16", "0x3f80"},
                                                        {"fp16", "0x3c00"},
                                                        {"tf32", "0x3f800000"},
                                                        {"fp32", "0x3f800000"},
                                                        {"e8m0", "0x7f"},
                                                        {"mxint8", "0x40"},
                                                        {"hif4", "0x4"},
                                                        {"e6m2", "0xc0"},
                                                        {"e4m3fnuz", "0x40"}})
    EXPECT_EQ(lines(number({"--format", format, "--json", "1"}).out).at(0)["code"], code) << format;
}

TEST(Number, WhatLooksLikeAnOptionGoesBehindTwoDashes) {
  const std::vector<Json> l =
      lines(number({"--format", "e5m2", "--json", "--", "-1.5", "-inf", "-.5"}).out);
  ASSERT_EQ(l.size(), 3u);
  EXPECT_EQ(l[0]["value"], -1.5);
  EXPECT_EQ(l[1]["input"], "-inf");
  EXPECT_EQ(l[2]["value"], -0.5);
  const Result late = number({"--format", "e5m2", "1", "--", "-inf"});
  EXPECT_EQ(late.code, 2) << "nothing is dropped";
  EXPECT_TRUE(has(late.err, "before the first")) << late.err;
}

TEST(Number, OverflowFollowsTheOption) {
  EXPECT_TRUE(has(number({"--format", "e5m2", "1e9"}).out, "0x7b"));
  EXPECT_TRUE(has(number({"--format", "e5m2", "--overflow", "nonsaturate", "1e9"}).out, "0x7c"));
}

TEST(Number, StochasticRoundingRepeatsWithItsSeed) {
  std::string many;
  for (int n = 0; n < 400; ++n) many += "1.03125\n";
  const auto run = [&](const char* seed) {
    return number({"--format", "e4m3", "--json", "--tie", "stochastic", "--seed", seed}, many).out;
  };
  EXPECT_EQ(run("1"), run("1"));
  EXPECT_NE(run("1"), run("2"));
  int up = 0;
  for (const Json& j : lines(run("1"))) up += j["value"] == 1.125;
  EXPECT_NEAR(up, 100, 4 * std::sqrt(400 * .25 * .75)) << "four standard deviations";
}

TEST(Number, ATableListsEveryCode) {
  const Json j = Json::parse(number({"--table", "hif8", "--json"}).out);
  EXPECT_EQ(j["codes"].size(), 256u);
  EXPECT_EQ(j["codes"][0x6e]["value"], 32768);
  EXPECT_TRUE(has(number({"--table", "e2m1"}).out, "0xf -6\n"));
  EXPECT_EQ(number({"--table", "fp32"}).code, 2);
}

TEST(Number, ABlockComesWithItsScales) {
  const Json j =
      Json::parse(number({"--block", "nvfp4", "--amax", "10",   "--json", "0.1",  "-0.2",
                          "0.3",     "-0.4",  "0.5",    "-0.6", "0.7",    "-0.8", "0.9",
                          "-1",      "1.1",   "-1.2",   "1.3",  "-1.4",   "1.5",  "-1.6"})
                      .out);
  EXPECT_EQ(j["scale"], "0x69");
  EXPECT_EQ(j["scale_value"], 72);
  EXPECT_EQ(j["packed"], "91b2c4d5e5e6f6f7");
  EXPECT_EQ(j["elements"][0]["code"], "0x1");
  const Json mx =
      Json::parse(number({"--block", "mxfp8", "--rule", "round-up", "--json", "957"}).out);
  EXPECT_EQ(mx["scale"], "0x81");
  EXPECT_EQ(mx["elements"][0]["value"], 960);
  EXPECT_EQ(
      Json::parse(number({"--block", "mxfp8", "--json"}, "957\n").out)["elements"][0]["value"],
      896);
}

TEST(Number, WhatIsWrongIsNamedWithWhatWasMeant) {
  struct Case {
    std::vector<std::string> arguments;
    std::string input, says;
  };
  for (const Case& c : {Case{{"--format", "e4m2", "1"}, "", "did you mean \"e4m3\"?"},
                        {{"--format", "e4m3", "--tie", "evn", "1"}, "", "did you mean \"even\"?"},
                        {{"--format", "e4m3", "--overflow", "satrate", "1"}, "", "\"saturate\"?"},
                        {{"--block", "nvfp5", "1"}, "", "did you mean \"nvfp4\"?"},
                        {{"--block", "mxfp8", "--rule", "flor", "1"}, "", "\"floor\"?"},
                        {{"--block", "mxfp8", "--amax", "1", "1"}, "", "--block nvfp4"},
                        {{"--block", "nvfp4", "--amax", "-1", "1"}, "", "0 or more"},
                        {{"--block", "mxfp8"}, "", "needs values"},
                        {{"--format", "e4m3", "0x1ff"}, "", "more than the 8 bits"},
                        {{"--format", "e4m3", "0xzz"}, "", "not a hexadecimal code"},
                        {{"--format", "e4m3", ""}, "", "not a number"},
                        {{"--format", "e4m3"}, "1\n\n2 3\n", "standard input:3"},
                        {{"--format", "e4m3", "--table", "e4m3"}, "", "takes one of"},
                        {{}, "", "takes one of"}}) {
    const Result r = number(c.arguments, c.input);
    EXPECT_EQ(r.code, 2) << c.says;
    EXPECT_TRUE(has(r.err, c.says)) << r.err;
  }
  const std::vector<std::string> seventeen(17, "1");
  std::vector<std::string> arguments{"--block", "nvfp4"};
  arguments.insert(arguments.end(), seventeen.begin(), seventeen.end());
  EXPECT_TRUE(has(number(arguments).err, "more than the 16"));
}

}  // namespace
}  // namespace lathe::cli
