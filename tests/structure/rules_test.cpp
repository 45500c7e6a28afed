// Each rule is tried on a planted violation, so that a rule that finds nothing means something, and
// then on the project's own source.

#include "tests/structure/rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lathe::structure {
namespace {

using Rule = Violations (*)(const SourceFile&);

void expect_clean_tree(Rule rule) {
  const std::vector<SourceFile> files = sources(LATHE_SOURCE_DIR);
  ASSERT_GT(files.size(), 50U) << "the source was not found below " LATHE_SOURCE_DIR;
  for (const SourceFile& f : files)
    for (const std::string& violation : rule(f)) ADD_FAILURE() << violation;
}

TEST(LayerOrder, IsKeptByTheSource) { expect_clean_tree(layer_order); }

TEST(LayerOrder, SeesAStepUpwards) {
  const Violations v =
      layer_order({"lathe/kernels/x.cpp", "#include <vector>\n#include \"lathe/model/ctx.h\"\n"});
  ASSERT_EQ(v.size(), 1U);
  EXPECT_EQ(v[0], "lathe/kernels/x.cpp:2: kernels may not include lathe/model/ctx.h");
}

TEST(LayerOrder, SeesOddSpellingsOfAnInclude) {
  for (const char* text : {"  #  include   \"lathe/cli/command.h\"\n", "#include<lathe/cli/x.h>\n"})
    EXPECT_EQ(layer_order({"lathe/base/x.h", text}).size(), 1U) << text;
}

TEST(LayerOrder, KeepsDataWorldAndReportOnBaseAlone) {
  for (const char* folder : {"data", "world", "report"}) {
    const std::string path = fmt::format("lathe/{}/x.cpp", folder);
    EXPECT_TRUE(layer_order({path, "#include \"lathe/base/view.h\"\n"}).empty());
    EXPECT_EQ(layer_order({path, "#include \"lathe/numerics/format.h\"\n"}).size(), 1U);
  }
}

TEST(LayerOrder, LetsTrainReadDataAndNothingElseBesideTheChain) {
  EXPECT_TRUE(layer_order({"lathe/train/x.cpp", "#include \"lathe/data/loader.h\"\n"}).empty());
  EXPECT_EQ(layer_order({"lathe/train/x.cpp", "#include \"lathe/report/page.h\"\n"}).size(), 1U);
  EXPECT_EQ(layer_order({"lathe/model/x.cpp", "#include \"lathe/data/loader.h\"\n"}).size(), 1U);
  EXPECT_EQ(layer_order({"lathe/plan/x.cpp", "#include \"lathe/rl/reward.h\"\n"}).size(), 1U);
}

TEST(LayerOrder, RefusesAFolderThatItDoesNotKnowAndFilesFromOutside) {
  EXPECT_EQ(layer_order({"lathe/misc/x.h", ""}).size(), 1U);
  EXPECT_EQ(layer_order({"lathe/base/x.h", "#include \"tests/support/draw.h\"\n"}).size(), 1U);
}

TEST(HeavyHeaders, StayOutOfHeaders) { expect_clean_tree(heavy_headers); }

TEST(HeavyHeaders, AreSeenInAHeaderAndAllowedInASource) {
  const std::string text = "#include <nlohmann/json.hpp>\n";
  EXPECT_EQ(heavy_headers({"lathe/train/x.h", text}).size(), 1U);
  EXPECT_TRUE(heavy_headers({"lathe/train/x.cpp", text}).empty());
}

TEST(HeavyHeaders, AllowIntrinsicsInTheFoldersOfOneInstructionSetOnly) {
  const std::string text = "#include <immintrin.h>\n";
  EXPECT_TRUE(heavy_headers({"lathe/kernels/avx512/simd.h", text}).empty());
  EXPECT_EQ(heavy_headers({"lathe/kernels/lanes.h", text}).size(), 1U);
}

TEST(IsaIncludes, HoldInTheSource) { expect_clean_tree(isa_includes); }

TEST(IsaIncludes, SeeAContainerAndAForeignHeader) {
  const std::string path = "lathe/kernels/avx2/x.cpp";
  EXPECT_EQ(isa_includes({path, "#include <vector>\n"}).size(), 1U);
  EXPECT_EQ(isa_includes({path, "#include \"lathe/base/error.h\"\n"}).size(), 1U);
  EXPECT_TRUE(isa_includes({path, "#include \"lathe/kernels/norm.h\"\n"}).empty());
  EXPECT_TRUE(isa_includes({"lathe/kernels/ref/x.cpp", "#include <vector>\n"}).empty());
}

TEST(FileLength, HoldsInTheSource) { expect_clean_tree(file_length); }

TEST(FileLength, SeesOneLineTooMany) {
  EXPECT_TRUE(file_length({"lathe/x.cpp", std::string(400, '\n')}).empty());
  EXPECT_EQ(file_length({"lathe/x.cpp", std::string(401, '\n')}).size(), 1U);
}

TEST(HeaderGuard, HoldsInTheSource) { expect_clean_tree(header_guard); }

TEST(HeaderGuard, SeesAHeaderWithout) {
  EXPECT_EQ(header_guard({"lathe/base/x.h", "#include <vector>\n"}).size(), 1U);
  EXPECT_TRUE(header_guard({"lathe/base/x.cpp", ""}).empty());
}

TEST(RefusedWords, AreNotInTheSource) { expect_clean_tree(refused_words); }

TEST(RefusedWords, AreSeenWithTheirLine) {
  const Violations v = refused_words({"lathe/x.cpp", std::string("\n// TO") + "DO later\n"});
  ASSERT_EQ(v.size(), 1U);
  EXPECT_TRUE(v[0].starts_with("lathe/x.cpp:2:")) << v[0];
  EXPECT_EQ(refused_words({"lathe/x.cpp", std::string("std::get") + "env(\"HOME\")\n"}).size(), 1U);
}

}  // namespace
}  // namespace lathe::structure
