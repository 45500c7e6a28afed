#include "lathe/base/config.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "lathe/base/config_visit.h"
#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "tests/support/temporary_folder.h"

namespace lathe {
namespace {

struct Inner {
  i64 count = 3;
  int small = 0;
  double rate = 0.5;
  bool on = false;
  std::string name = "plain";
};
struct Outer {
  Inner first, second;
};

template <class V>
void visit(V& v, Inner& c) {
  v("count", c.count, "how many", at_least(1));
  v("small", c.small, "a small one", between(-1, 1));
  v("rate", c.rate, "how fast", between(0, 1e6));
  v("on", c.on, "whether");
  v("name", c.name, "which", one_of({"plain", "fancy"}));
}
template <class V>
void visit(V& v, Outer& c) {
  v.section("first", c.first);
  v.section("second", c.second);
}

Outer read(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const ConfigFile f = ConfigFile::parse(text, "run.toml", overrides);
  Outer o;
  Reader r(f);
  visit(r, o);
  r.finish();
  return o;
}

/// The whole report of the error that reading throws.
std::string report(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    read(text, overrides);
  } catch (const Error& e) {
    return e.report();
  }
  return "no error";
}

TEST(Config, SetsWhatTheFileSaysAndKeepsTheRest) {
  const Outer o = read("[first]\ncount = 7\non = true\nrate = 2\n[second]\nname = \"fancy\"\n");
  EXPECT_EQ(o.first.count, 7);
  EXPECT_TRUE(o.first.on);
  EXPECT_EQ(o.first.rate, 2.0);
  EXPECT_EQ(o.first.name, "plain");
  EXPECT_EQ(o.second.name, "fancy");
  EXPECT_EQ(o.second.count, 3);
}

TEST(Config, AnEmptyFileIsAllDefaults) {
  EXPECT_EQ(read("").first.count, 3);
  EXPECT_EQ(read("# nothing\n").first.count, 3);
}

TEST(Config, AnUnknownKeyNamesTheNearestAndItsLine) {
  EXPECT_EQ(report("[first]\n\ncuont = 7\n"),
            "error: there is no key first.cuont\n  --> run.toml:3\n"
            "  hint: did you mean first.count?\n");
}

TEST(Config, AKeyOutsideItsSectionIsTracedToIt) {
  EXPECT_EQ(report("rate = 7\n"),
            "error: there is no key rate\n  --> run.toml:1\n  hint: did you mean first.rate?\n");
}

TEST(Config, AMisspeltSectionNamesTheNearestEvenWhenItIsEmpty) {
  EXPECT_EQ(report("[frist]\n"),
            "error: there is no section [frist]\n  --> run.toml:1\n"
            "  hint: did you mean [first]?\n");
  EXPECT_EQ(report("[unheard]\na = 1\n"),
            "error: there is no section [unheard]\n  --> run.toml:1\n"
            "  hint: the sections are [first], [second]\n");
  EXPECT_EQ(report("first = 3\n"),
            "error: first is a section, not a key\n  --> run.toml:1\n"
            "  hint: write [first] on a line of its own\n");
}

TEST(Config, AWrongTypeSaysWhatIsWantedAndWhatIsThere) {
  EXPECT_EQ(report("[first]\ncount = \"7\"\n"),
            "error: first.count must be a whole number, not \"7\"\n  --> run.toml:2\n");
  EXPECT_EQ(report("[first]\ncount = 7.0\n"),
            "error: first.count must be a whole number, not 7.0\n  --> run.toml:2\n");
  EXPECT_EQ(report("[first]\non = 1\n"),
            "error: first.on must be true or false, not 1\n  --> run.toml:2\n");
  EXPECT_EQ(report("[first]\nname = 1\n"),
            "error: first.name must be text in quotes, not 1\n  --> run.toml:2\n");
  EXPECT_EQ(report("[first]\nrate = true\n"),
            "error: first.rate must be a number, not true\n  --> run.toml:2\n");
  EXPECT_EQ(report("[first]\ncount = [1]\n"),
            "error: first.count is a list: no key of a run file takes one\n  --> run.toml:2\n");
  EXPECT_EQ(report("[first]\ncount = 2020-01-01\n"),
            "error: first.count is a date or time: no key of a run file takes one\n"
            "  --> run.toml:2\n");
}

TEST(Config, AValueOutOfRangeSaysTheRange) {
  EXPECT_EQ(report("[first]\ncount = 0\n"),
            "error: first.count = 0 must be 1 or more\n  --> run.toml:2\n");
  EXPECT_EQ(report("[first]\nsmall = 2\n"),
            "error: first.small = 2 must be between -1 and 1\n  --> run.toml:2\n");
  EXPECT_EQ(report("[first]\nrate = nan\n"),
            "error: first.rate = nan must be between 0 and 1000000\n  --> run.toml:2\n");
  EXPECT_EQ(report("[first]\nrate = inf\n"),
            "error: first.rate = inf must be between 0 and 1000000\n  --> run.toml:2\n");
  EXPECT_NE(report("[first]\ncount = 9223372036854775808\n").find("run.toml:2"), std::string::npos);
}

TEST(Config, AnUnknownChoiceNamesTheNearest) {
  EXPECT_EQ(report("[first]\nname = \"fanci\"\n"),
            "error: first.name must be one of plain, fancy, not \"fanci\"\n  --> run.toml:2\n"
            "  hint: did you mean \"fancy\"?\n");
}

TEST(Config, ASyntaxErrorOrARepeatedNameHasItsLine) {
  for (const char* text : {"[first]\ncount = \n", "[first]\ncount 7\n", "[second]\n[first\n",
                           "[first]\n[first]\n", "[first]\ncount = 1 2\n"})
    EXPECT_NE(report(text).find("run.toml:2"), std::string::npos) << text << report(text);
  EXPECT_NE(report("[first]\ncount = 1\ncount = 2\n").find("run.toml:3"), std::string::npos);
  EXPECT_NE(report("[first]\nname = \"\xff\"\n").find("run.toml:2"), std::string::npos);
}

TEST(Config, AnOverrideWinsAndTakesBareWords) {
  const Outer o = read("[first]\ncount = 7\n",
                       {"first.count=9", "first.rate=1e-3", "second.name=fancy", "second.on=true"});
  EXPECT_EQ(o.first.count, 9);
  EXPECT_EQ(o.first.rate, 1e-3);
  EXPECT_EQ(o.second.name, "fancy");
  EXPECT_TRUE(o.second.on);
  EXPECT_EQ(read("", {" first.name = \"fancy\" "}).first.name, "fancy");
  EXPECT_EQ(read("", {"first.count=1", "first.count=2"}).first.count, 2);
}

TEST(Config, ABadOverrideShowsWhatWasTyped) {
  EXPECT_EQ(report("", {"first.count"}),
            "error: an override must read section.key=value, not 'first.count'\n"
            "  --> --set first.count\n  hint: for example: --set train.steps=10\n");
  for (const char* o : {"", "=", "count=1", "first.=1", ".count=1", "first..count=1", "a b.c=1"})
    EXPECT_NE(report("", {o}).find("must read section.key=value"), std::string::npos) << o;
  EXPECT_EQ(report("", {"first.count=7x"}),
            "error: first.count must be a whole number, not 7x\n"
            "  --> --set first.count=7x\n");
  EXPECT_NE(report("", {"first.name=\"fancy"}).find("--set first.name=\"fancy"), std::string::npos);
  EXPECT_NE(report("", {"first.cuont=1"}).find("did you mean first.count?"), std::string::npos);
  EXPECT_NE(report("", {"first.name=\xff"}).find("no text"), std::string::npos);
}

TEST(Config, AMissingFileAndAFolderAreErrors) {
  const testing_support::TemporaryFolder dir;
  EXPECT_THROW(ConfigFile::read(dir / "none.toml"), Error);
  EXPECT_THROW(ConfigFile::read(dir.path()), Error);
}

TEST(Config, EveryByteStringEitherReadsOrIsAnError) {
  std::string text = "[first]\ncount = 7\nname = \"fancy\"\nrate = 1.5\n";
  for (std::size_t i = 0; i < text.size(); ++i)
    for (const char c : {'\0', '"', '[', '=', '\n', '.', '9', '\xff', 'x'}) {
      std::string changed = text;
      changed[i] = c;
      EXPECT_NO_FATAL_FAILURE(report(changed));
      EXPECT_NO_FATAL_FAILURE(report(text.substr(0, i) + c));
    }
}

TEST(Config, WhatIsPrintedReadsBackToTheSameBits) {
  Outer o;
  o.first.rate = 0.1 + 0.2;
  o.second.rate = 5e-324;
  o.first.count = std::numeric_limits<i64>::max();
  o.first.small = -1;
  o.second.on = true;
  Lister l;
  visit(l, o);
  const Outer back = read(to_toml(l.values()));
  EXPECT_EQ(std::bit_cast<u64>(back.first.rate), std::bit_cast<u64>(o.first.rate));
  EXPECT_EQ(std::bit_cast<u64>(back.second.rate), std::bit_cast<u64>(o.second.rate));
  EXPECT_EQ(back.first.count, o.first.count);
  EXPECT_EQ(back.first.small, -1);
  EXPECT_TRUE(back.second.on);
}

TEST(Config, AnyTextIsQuotedSoThatItReadsBack) {
  std::string all = "ünïcode \"quoted\" \\ back\nslash\t";
  for (char c = 1; c < 32; ++c) all += c;
  all += '\x7f';
  const ConfigFile f = ConfigFile::parse("x = " + toml_value(all), "t");
  EXPECT_EQ(std::get<std::string>(f.find("x")->value), all);
}

TEST(Config, RealsLookLikeReals) {
  EXPECT_EQ(toml_value(1.0), "1.0");
  EXPECT_EQ(toml_value(1e-3), "0.001");
  EXPECT_EQ(toml_value(1e300), "1e+300");
}

TEST(Config, TheReferenceListsEveryKey) {
  Outer o;
  Documenter d;
  visit(d, o);
  ASSERT_EQ(d.keys().size(), 10u);
  EXPECT_EQ(d.keys()[4].key, "first.name");
  EXPECT_EQ(d.keys()[4].value, "\"plain\"");
  EXPECT_EQ(d.keys()[4].choices, (std::vector<std::string>{"plain", "fancy"}));
  EXPECT_EQ(d.keys()[7].about, "how fast");
}

TEST(Nearest, FindsSwapsSlipsAndPartsAndNothingFar) {
  const std::vector<std::string> known{"model", "train", "global_batch", "lr"};
  EXPECT_EQ(nearest("modle", known), "model");
  EXPECT_EQ(nearest("Trian", known), "train");
  EXPECT_EQ(nearest("batch", known), "global_batch");
  EXPECT_EQ(nearest("rl", known), "lr");
  EXPECT_EQ(nearest("zebra", known), "");
  EXPECT_EQ(nearest("", known), "");
}

}  // namespace
}  // namespace lathe
