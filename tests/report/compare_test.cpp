#include "lathe/report/compare.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/report/compare_fidelity.h"
#include "lathe/report/compare_heat.h"
#include "lathe/report/compare_plots.h"
#include "lathe/report/compare_series.h"
#include "lathe/report/read.h"
#include "tests/report/run_folder.h"

namespace lathe::report {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Falls from 8 to 5.5 in 40 steps, in sixteenths: every mean below is exact.
double loss(i64 step) { return 8 - static_cast<double>(step) / 16; }

class Compare : public testing::Test {
 protected:
  /// A run of `steps` of 40 whose losses lie `offset(step)` above `loss`, evaluated every 10 steps
  /// half a nat higher.
  std::string run(const std::string& name, const std::function<double(i64)>& offset,
                  i64 steps = 40) {
    std::filesystem::create_directories(folder_.path() + "/" + name);
    std::string log;
    for (i64 s = 1; s <= steps; ++s) {
      const double y = loss(s) + offset(s);
      log += fmt::format(R"({{"step": {}, "loss": {}, "tokens_per_second": {})", s, y,
                         name == "slow" ? 500 : 1000);
      if (s % 10 == 0) log += fmt::format(R"(, "held_out_loss": {})", y + 0.5);
      log += "}\n";
    }
    folder_.write(name + "/log.jsonl", log);
    folder_.write(name + "/config.toml", "[train]\nsteps = 40\n");
    in_.folder = folder_.path();
    in_.baseline = "base";
    return folder_.path() + "/" + name;
  }
  void recipe(const std::string& name, const std::function<double(i64)>& offset, i64 steps = 40) {
    in_.runs.emplace_back(name, run(name, offset, steps));
  }
  void seed(const std::string& name, const std::function<double(i64)>& offset, i64 steps = 40) {
    in_.seeds.push_back(run(name, offset, steps));
  }
  static std::function<double(i64)> always(double v) {
    return [v](i64) { return v; };
  }

  RunFolder folder_;
  CompareInput in_;
};

TEST_F(Compare, MeasuresGapAndBandAsDefined) {
  recipe("base", always(0));
  recipe("near", always(0.125));
  recipe("worse", always(0.5));
  recipe("better", always(-0.5));
  // 1 apart until step 30, 1/4 from there on: only the last quarter counts.
  seed("base-2", [](i64 s) { return s <= 29 ? 1.0 : 0.25; });
  const Comparison c = compare(in_);
  EXPECT_EQ(c.steps, 40);
  EXPECT_EQ(c.window, 2);
  EXPECT_TRUE(c.by_held_out);
  EXPECT_EQ(c.seeds, 2);
  EXPECT_EQ(c.noise, 0.25);
  EXPECT_EQ(last_value(c.training_noise), 0.25);
  EXPECT_EQ(c.training_noise[29].y, 1);    // of steps 21 to 30
  EXPECT_EQ(c.held_out_noise[0].y, 1);     // at step 10
  EXPECT_EQ(c.held_out_noise[2].y, 0.25);  // at step 30: steps 21 to 30 hold no other evaluation

  ASSERT_EQ(c.recipes.size(), 4U);
  const RecipeResult& base = c.recipes[0];
  EXPECT_EQ(c.base(), &base);
  EXPECT_EQ(base.verdict, Verdict::baseline);
  EXPECT_EQ(base.training_loss, (loss(39) + loss(40)) / 2);
  EXPECT_EQ(base.held_out_loss, 6);
  const RecipeResult& worse = c.recipes[2];
  EXPECT_EQ(worse.final_gap, 0.5);
  EXPECT_EQ(worse.final_share, 0.5 / 6);
  EXPECT_EQ(worse.training_gap, 0.5);
  EXPECT_EQ(worse.gap.size(), 40U);
  EXPECT_EQ(worse.held_out_gap.size(), 4U);
  EXPECT_EQ(c.recipes[1].verdict, Verdict::within_noise);
  EXPECT_EQ(worse.verdict, Verdict::degrades);
  EXPECT_EQ(c.recipes[3].verdict, Verdict::better);
  EXPECT_EQ(verdict_text(c, c.recipes[1]), "within noise");
  EXPECT_EQ(verdict_text(c, worse), "degrades by 8.33 %");
  EXPECT_EQ(verdict_text(c, c.recipes[3]), "better by 8.33 %");
}

TEST_F(Compare, AGapAsLargeAsTheBandIsWithinIt) {
  recipe("base", always(0));
  recipe("edge", always(0.25));
  recipe("beyond", always(0.3125));
  seed("base-2", always(0.25));
  const Comparison c = compare(in_);
  EXPECT_EQ(c.recipes[1].verdict, Verdict::within_noise);
  EXPECT_EQ(c.recipes[2].verdict, Verdict::degrades);
}

TEST_F(Compare, TheBandIsTheWidestOfAllSeeds) {
  recipe("base", always(0));
  seed("base-2", always(0.25));
  seed("base-3", always(-0.125));
  const Comparison c = compare(in_);
  EXPECT_EQ(c.seeds, 3);
  EXPECT_EQ(c.noise, 0.375);
}

TEST_F(Compare, OneSeedMakesNoBandAndNoVerdict) {
  recipe("base", always(0));
  recipe("other", always(0.5));
  const Comparison c = compare(in_);
  EXPECT_TRUE(std::isnan(c.noise));
  EXPECT_EQ(c.recipes[1].verdict, Verdict::no_band);
  EXPECT_EQ(verdict_text(c, c.recipes[1]), "+8.33 %, no noise band");
}

TEST_F(Compare, SeedsThatDidNotFinishAreLeftOutOfTheBand) {
  recipe("base", always(0));
  seed("base-2", always(0.25));
  seed("base-3", always(2), 39);
  const Comparison c = compare(in_);
  EXPECT_EQ(c.seeds, 2);
  EXPECT_EQ(c.seeds_left, 1);
  EXPECT_EQ(c.noise, 0.25);
  EXPECT_TRUE(has(compare_page(c), "1 runs of base with other seeds"));
}

TEST_F(Compare, WithoutHeldOutTextTheTrainingLossDecides) {
  for (const std::string name : {"base", "base-2", "worse"}) {
    std::filesystem::create_directories(folder_.path() + "/" + name);
    std::string log;
    for (i64 s = 1; s <= 40; ++s)
      log += fmt::format(R"({{"step": {}, "loss": {}}})"
                         "\n",
                         s,
                         loss(s) + (name == "base"    ? 0
                                    : name == "worse" ? 1
                                                      : 0.5));
    folder_.write(name + "/log.jsonl", log);
  }
  in_ = {folder_.path(),
         "base",
         {{"base", folder_.path() + "/base"}, {"worse", folder_.path() + "/worse"}},
         {folder_.path() + "/base-2"}};
  const Comparison c = compare(in_);
  EXPECT_FALSE(c.by_held_out);
  EXPECT_EQ(c.noise, 0.5);
  EXPECT_EQ(c.recipes[1].final_gap, 1);
  EXPECT_EQ(c.recipes[1].final_share, 1 / ((loss(39) + loss(40)) / 2));
  EXPECT_FALSE(has(compare_table(c), "held out"));  // no run has one
}

TEST_F(Compare, ARunThatBlewUpIsDivergedAtItsStep) {
  recipe("base", always(0));
  recipe("gone", always(0), 20);
  folder_.write("gone/diverged.json", R"({"step": 21, "why": "step 21: the loss is nan"})");
  const Comparison c = compare(in_);
  EXPECT_EQ(c.recipes[1].verdict, Verdict::diverged);
  EXPECT_EQ(verdict_text(c, c.recipes[1]), "diverged at step 21");
  EXPECT_EQ(c.recipes[1].diverged_why, "the loss is nan");
  EXPECT_TRUE(std::isnan(c.recipes[1].final_gap));
}

TEST_F(Compare, ARunThatWentOnSinceIsNotDiverged) {
  recipe("base", always(0));
  recipe("back", always(0));
  folder_.write("back/diverged.json", R"({"step": 21, "why": "x"})");
  EXPECT_EQ(compare(in_).recipes[1].diverged_step, 0);
}

TEST_F(Compare, LosingHalfOfTheProgressForGoodIsDivergence) {
  recipe("base", always(0));
  // Falls from 8 - 1/16 to 6.75 + 1/32 smoothed by step 20; half way back is about 7.35.
  const auto jump = [](double to, i64 until) {
    return [=](i64 s) { return s <= 20 || s > until ? 0 : to - loss(s); };
  };
  recipe("up", jump(9, 40));
  recipe("a-little-up", jump(7, 40));
  recipe("comes-back", jump(9, 36));
  const Comparison c = compare(in_);
  // Smoothed over two steps: 6.78 at step 20, 7.88 at step 21.
  EXPECT_EQ(c.recipes[1].diverged_step, 21);
  EXPECT_EQ(c.recipes[2].diverged_step, 0);
  EXPECT_EQ(c.recipes[3].diverged_step, 0);
  EXPECT_EQ(c.recipes[0].diverged_step, 0);
}

TEST_F(Compare, ALossThatIsNoNumberIsDivergence) {
  recipe("base", always(0));
  recipe("null", always(0), 12);
  std::string log = fmt::format("{{\"step\": 1, \"loss\": 8}}\n{{\"step\": 2, \"loss\": null}}\n");
  folder_.write("null/log.jsonl", log);
  EXPECT_EQ(compare(in_).recipes[1].diverged_step, 2);
}

TEST_F(Compare, UnfinishedRunsSayHowFarTheyAre) {
  recipe("base", always(0));
  recipe("under-way", always(0), 17);
  in_.runs.emplace_back("later", folder_.path() + "/later");
  const Comparison c = compare(in_);
  EXPECT_EQ(verdict_text(c, c.recipes[1]), "at step 17 of 40");
  EXPECT_EQ(verdict_text(c, c.recipes[2]), "not begun");
  EXPECT_TRUE(has(compare_page(c), "2 of 3 recipes have not finished"));
}

TEST_F(Compare, WithoutAFinishedBaselineThereIsNoVerdict) {
  recipe("base", always(0), 20);
  recipe("other", always(0.5));
  seed("base-2", always(0.25));
  const Comparison c = compare(in_);
  EXPECT_EQ(c.recipes[1].verdict, Verdict::no_baseline);
  EXPECT_EQ(verdict_text(c, c.recipes[1]), "no base to compare with");
  EXPECT_TRUE(std::isnan(c.noise));
}

TEST_F(Compare, SpeedAndMemoryAreReadFromTheRuns) {
  recipe("base", always(0));
  recipe("slow", always(0));
  EXPECT_FALSE(has(compare_table(compare(in_)), "B/param"));
  folder_.write("base/run.json",
                R"({"parameters": 1000, "memory": [{"name": "weights", "bytes": 6000},
                    {"name": "gradients", "bytes": 4000}, {"name": "state", "bytes": 8000},
                    {"name": "scratch", "bytes": 99999}]})");
  const Comparison c = compare(in_);
  EXPECT_EQ(c.recipes[0].bytes_per_parameter, 18);
  EXPECT_EQ(c.recipes[1].relative_speed, 0.5);
  EXPECT_TRUE(has(compare_table(c), "B/param"));
  EXPECT_TRUE(has(compare_page(c), "bytes/parameter"));
}

TEST_F(Compare, JsonHoldsWhatTheTableShows) {
  recipe("base", always(0));
  recipe("worse", always(0.5));
  seed("base-2", always(0.25));
  const auto j = nlohmann::json::parse(compare_json(compare(in_)));
  EXPECT_EQ(j["gap_of"], "held_out_loss");
  EXPECT_EQ(j["noise"]["nats"], 0.25);
  EXPECT_EQ(j["recipes"][1]["outcome"], "degrades");
  EXPECT_EQ(j["recipes"][1]["gap_nats"], 0.5);
  EXPECT_TRUE(j["recipes"][1]["diverged_step"].is_null());
  EXPECT_TRUE(j["recipes"][1]["keep_in_bf16"].is_null());
}

std::string probe(i64 step, const std::string& layer, const std::string& operand, double sqnr,
                  double underflow) {
  return fmt::format(R"({{"step": {}, "layer": "{}", "operand": "{}", "sqnr_db": {}, )"
                     R"("underflow": {}, "saturated": 0, "amax": 2}})"
                     "\n",
                     step, layer, operand, sqnr, underflow);
}

TEST_F(Compare, LayersToKeepWereWeakAtThreeProbesInARow) {
  run("x", always(0), 1);
  std::string text;
  const auto layer = [&](const std::string& name, const std::vector<double>& sqnr,
                         const std::vector<double>& underflow) {
    for (std::size_t i = 0; i < sqnr.size(); ++i)
      text += probe(static_cast<i64>(10 * (i + 1)), name, "grad_w.dy", sqnr[i], underflow[i]);
  };
  layer("two-in-a-row", {14, 14, 16, 14, 14}, {0, 0, 0, 0, 0});
  layer("by-noise", {16, 14, 13, 12, 16}, {0, 0, 0, 0, 0});
  layer("by-underflow", {20, 20, 20, 20}, {0, 0.5, 0.5, 0.375});
  layer("at-the-edge", {15, 15, 15}, {0.25, 0.25, 0.25});
  layer("probed-once", {9}, {0});
  folder_.write("x/fidelity.jsonl", text);
  const Fidelity f = read_fidelity(folder_.path() + "/x").value();
  const std::vector<WeakLayer> weak = weak_layers(f);
  ASSERT_EQ(weak.size(), 3U);
  EXPECT_EQ(weak[0].layer, "probed-once");
  EXPECT_EQ(weak[1].layer, "by-noise");
  EXPECT_EQ(weak[1].step, 20);
  EXPECT_EQ(weak[1].sqnr_db, 12);
  EXPECT_EQ(weak[2].layer, "by-underflow");
  EXPECT_EQ(weak[2].underflow, 0.5);
  EXPECT_EQ(weak[2].step, 20);
}

TEST_F(Compare, FidelityIsReadWithGapsRepeatsAndBrokenLines) {
  run("x", always(0), 1);
  folder_.write("x/fidelity.jsonl",
                probe(10, "a", "forward.x", 30, 0) + probe(20, "a", "forward.x", 10, 0) +
                    "{\"step\": 5}\nrubbish\n\n" +
                    probe(20, "a", "forward.x", 40, 0.5) +  // a run that went on from step 10
                    "{\"step\": 10, \"layer\": \"b\", \"operand\": \"forward.w\", \"sqnr_db\": "
                    "null}\n{\"step\": 20, \"lay");
  const Fidelity f = read_fidelity(folder_.path() + "/x").value();
  EXPECT_EQ(f.layers, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(f.operands, (std::vector<std::string>{"forward.x", "forward.w"}));
  EXPECT_EQ(f.unreadable_lines, 3);
  ASSERT_EQ(f.at[0][0].size(), 2U);
  EXPECT_EQ(f.at[0][0][1].sqnr_db, 40);
  EXPECT_TRUE(f.at[0][1].empty());
  const CellSummary s = summarise(f.at[0][0]);
  EXPECT_EQ(s.sqnr_db, 35);
  EXPECT_EQ(s.lowest_sqnr_db, 30);
  EXPECT_EQ(s.underflow, 0.5);
  EXPECT_TRUE(std::isnan(summarise(f.at[1][1]).sqnr_db));
  EXPECT_TRUE(weak_layers(f).empty());  // what is not known is not weak
  EXPECT_FALSE(read_fidelity(folder_.path()).has_value());
}

TEST(Heat, ColoursTellWeakFromStrong) {
  EXPECT_NE(heat_colour(14), heat_colour(16));
  EXPECT_EQ(heat_colour(40), heat_colour(90));
  EXPECT_EQ(heat_colour(kAbsent), "");
}

TEST_F(Compare, ThePageShowsFidelityOrHowToGetIt) {
  recipe("base", always(0));
  recipe("low", always(0));
  EXPECT_TRUE(has(compare_page(compare(in_)), "No run has a fidelity.jsonl"));
  folder_.write("low/fidelity.jsonl",
                probe(1, "<layer>", "grad_w.dy", 9.25, 0) + probe(1, "good", "grad_w.dy", 31, 0));
  const std::string page = compare_page(compare(in_));
  EXPECT_FALSE(has(page, "No run has a fidelity.jsonl"));
  EXPECT_TRUE(has(page, ">9.2</td>") || has(page, ">9.3</td>"));
  EXPECT_TRUE(has(page, "Layers to keep in BF16"));
  EXPECT_TRUE(has(page, "<li>&lt;layer&gt;: grad_w.dy"));
  EXPECT_FALSE(has(page, "<li>good"));
  EXPECT_TRUE(has(compare_table(compare(in_)), "keep in bf16 under low: <layer>\n"));
}

TEST_F(Compare, ThePageIsWholeAndAsksForNothingFromOutside) {
  recipe("base", always(0));
  recipe("worse", always(0.5));
  recipe("gone", always(0), 3);
  folder_.write("gone/diverged.json", R"({"step": 4, "why": "<script>"})");
  in_.runs.emplace_back("<i>none", folder_.path() + "/none");
  seed("base-2", always(0.25));
  const std::string out = compare_page(compare(in_));
  for (const char* refused : {"<script", "<img", "<link", "<iframe", "src=\"", "href=", "url(",
                              "@import", "<i>none", "nan", "inf "})
    EXPECT_FALSE(has(out, refused)) << refused;
  EXPECT_TRUE(has(out, "default-src 'none'"));
  EXPECT_TRUE(has(out, "class=\"band\""));
  EXPECT_TRUE(out.ends_with("</main></body></html>\n"));
  for (const std::string name : {"svg", "figure", "div", "table", "tr", "td", "th", "dl", "dt",
                                 "ul", "li", "text", "title", "details", "h2"}) {
    const auto occurrences = [&](const std::string& part) {
      int n = 0;
      for (auto at = out.find(part); at != std::string::npos; at = out.find(part, at + 1))
        n += out[at + part.size()] == '>' || out[at + part.size()] == ' ';
      return n;
    };
    EXPECT_EQ(occurrences("<" + name), occurrences("</" + name)) << name;
  }
}

TEST_F(Compare, APageWithoutASingleStepIsWholeToo) {
  in_ = {folder_.path(), "base", {{"base", folder_.path() + "/none"}}, {}};
  const Comparison c = compare(in_);
  EXPECT_TRUE(compare_page(c).ends_with("</main></body></html>\n"));
  EXPECT_EQ(nlohmann::json::parse(compare_json(c))["recipes"][0]["verdict"], "not begun");
}

TEST_F(Compare, EveryLineOfADozenLooksDifferent) {
  recipe("base", always(0));
  for (int i = 0; i < 14; ++i) in_.runs.emplace_back(fmt::format("r{}", i), folder_.path() + "/no");
  const std::vector<LineStyle> styles = line_styles(compare(in_));
  for (std::size_t a = 0; a < styles.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      EXPECT_FALSE(styles[a].colour == styles[b].colour && styles[a].dash == styles[b].dash)
          << a << " " << b;
}

}  // namespace
}  // namespace lathe::report
