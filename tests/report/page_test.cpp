#include "lathe/report/page.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "lathe/base/view.h"
#include "lathe/report/read.h"

namespace lathe::report {
namespace {

RunRecord run_of(i64 steps) {
  RunRecord r;
  r.folder = "runs/<tiny>";
  for (i64 s = 1; s <= steps; ++s) {
    StepRecord record;
    record.step = s;
    record.loss = 2 + 6.0 / static_cast<double>(s);
    record.grad_norm = 1;
    record.lr = 1e-3;
    record.tokens = static_cast<double>(s) * 1000;
    record.seconds = 0.5;
    record.tokens_per_second = 2000;
    record.mfu = 0.5;
    record.rss = 5e8;
    if (s % 10 == 0) record.held_out_loss = record.loss + 0.25;
    r.steps.push_back(record);
  }
  return r;
}

TEST(Summary, CountsTheWholeRun) {
  RunRecord r = run_of(100);
  r.memory = {{"weights", 3e8}, {"state", 1e8}};
  const Summary s = summarise(r);
  EXPECT_EQ(s.steps, 100);
  EXPECT_EQ(s.loss, r.steps.back().loss);
  EXPECT_EQ(s.held_out_loss, r.steps.back().held_out_loss);
  EXPECT_EQ(s.best_step, 100);
  EXPECT_EQ(s.tokens, 100000);
  EXPECT_EQ(s.seconds, 50);
  EXPECT_EQ(s.tokens_per_second, 2000);
  EXPECT_EQ(s.peak_rss, 5e8);
  EXPECT_EQ(s.predicted_memory, 4e8);
  EXPECT_EQ(s.bad_steps, 0);
}

TEST(Summary, FindsTheBestHeldOutLossAndNotTheLast) {
  RunRecord r = run_of(30);
  r.steps[19].held_out_loss = 1;
  const Summary s = summarise(r);
  EXPECT_EQ(s.best_step, 20);
  EXPECT_EQ(s.best_held_out_loss, 1);
  EXPECT_EQ(s.held_out_loss, r.steps[29].held_out_loss);
}

TEST(Summary, CountsStepsThatHaveNoNumber) {
  RunRecord r = run_of(5);
  r.steps[2].loss = kAbsent;
  EXPECT_EQ(summarise(r).bad_steps, 1);
}

TEST(Summary, CountsSkippedStepsForThemselves) {
  RunRecord r = run_of(5);
  r.steps[2].grad_norm = kAbsent;
  r.steps[2].skipped = true;
  EXPECT_EQ(summarise(r).bad_steps, 0);
  EXPECT_EQ(summarise(r).skipped_steps, 1);
}

TEST(Summary, PrintsJsonWithNullForWhatIsAbsent) {
  const auto j = nlohmann::json::parse(summary_json(RunRecord{}));
  EXPECT_EQ(j.at("steps"), 0);
  EXPECT_TRUE(j.at("loss").is_null());
  const auto full = nlohmann::json::parse(summary_json(run_of(100)));
  EXPECT_EQ(full.at("tokens_per_second"), 2000);
  EXPECT_EQ(full.at("loss").get<double>(), 2.06);
}

TEST(Page, AsksForNothingFromOutside) {
  RunRecord r = run_of(50);
  r.samples.push_back({50, "<img src=http://x/>"});
  const std::string out = page(r);
  for (const char* refused :
       {"<script", "<img", "<link", "<iframe", "src=\"", "href=", "url(", "@import"})
    EXPECT_EQ(out.find(refused), std::string::npos) << refused;
  EXPECT_NE(out.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(out.find("width=device-width"), std::string::npos);
}

TEST(Page, EscapesAllThatItIsGiven) {
  RunRecord r = run_of(3);
  r.prompt = "<prompt>";
  r.samples.push_back({3, " said <i>"});
  r.config = "x = \"</pre><script>\"";
  r.facts = {{"<key>", "<value>"}};
  r.memory = {{"<part>", 5}};
  const std::string out = page(r);
  for (const char* raw :
       {"<prompt>", "said <i>", "</pre><script>", "<key>", "<value>", "<part>", "<tiny>"})
    EXPECT_EQ(out.find(raw), std::string::npos) << raw;
  EXPECT_NE(out.find("&lt;value&gt;"), std::string::npos);
}

TEST(Page, StaysSmallForAHundredThousandSteps) {
  const std::string out = page(run_of(100000));
  EXPECT_LT(out.size(), 400000U);
  EXPECT_NE(out.find("100000"), std::string::npos);
}

TEST(Page, IsWholeForARunWithoutSteps) {
  const std::string out = page(run_of(0));
  EXPECT_NE(out.find("No step has been logged yet."), std::string::npos);
  EXPECT_TRUE(out.ends_with("</main></body></html>\n"));
  EXPECT_EQ(out.find("nan"), std::string::npos);
}

TEST(Page, SaysWhenLinesOfTheLogWereLeftOut) {
  RunRecord r = run_of(3);
  r.unreadable_lines = 2;
  r.first_unreadable = 4;
  EXPECT_NE(page(r).find("first of them line 4"), std::string::npos);
}

TEST(Page, ClosesEveryElementItOpens) {
  RunRecord r = run_of(60);
  r.samples.push_back({60, "text"});
  r.memory = {{"weights", 5}};
  r.facts = {{"kernels", "avx2"}};
  r.config = "[run]\n";
  const std::string out = page(r);
  for (const std::string name : {"svg", "figure", "div", "table", "tr", "td", "dl", "p", "text",
                                 "title", "blockquote", "main", "h2"}) {
    const auto occurrences = [&](const std::string& part) {
      int n = 0;
      for (auto at = out.find(part); at != std::string::npos; at = out.find(part, at + 1))
        // "<tr" must not count "<track"
        n += part[1] == '/' || out[at + part.size()] == '>' || out[at + part.size()] == ' ';
      return n;
    };
    EXPECT_EQ(occurrences("<" + name), occurrences("</" + name + ">")) << name;
  }
}

}  // namespace
}  // namespace lathe::report
