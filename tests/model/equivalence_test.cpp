// What must not change a bit: threads, tables, micro-batches, recompute, padding, other documents.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/model/block.h"
#include "lathe/model/config.h"
#include "lathe/model/ctx.h"
#include "lathe/parallel/params.h"
#include "tests/model/rig.h"

namespace lathe::model {
namespace {

struct Result {
  double loss;
  std::vector<double> gradients;
  bool operator==(const Result&) const = default;
};

Result learn(const ModelConfig& m, const RigOptions& o, i64 padded = 0) {
  Rig rig(m, o);
  const double loss = rig.learn(Text(m, 4, 3, padded));
  return {loss, rig.gradients()};
}

std::vector<const kernels::Kernels*> usable() {
  std::vector<const kernels::Kernels*> tables;
  for (const kernels::Candidate& c : kernels::candidates())
    if (c.why_not.empty()) tables.push_back(c.table);
  return tables;
}

struct Case {
  const char* name;
  ModelConfig model;
  std::string recipe;
};

class EachModel : public testing::TestWithParam<Case> {
 protected:
  RigOptions options() const { return {.recipe = GetParam().recipe}; }
  const ModelConfig& config() const { return GetParam().model; }
};

INSTANTIATE_TEST_SUITE_P(All, EachModel,
                         testing::Values(Case{"llama_fp32", small_llama(), "fp32"},
                                         Case{"llama_tied_bf16", small_llama(true), "bf16"},
                                         Case{"llama_bf16", small_llama(), "bf16"},
                                         Case{"gpt2_fp32", small_gpt2(), "fp32"},
                                         Case{"gpt2_bf16", small_gpt2(), "bf16"},
                                         Case{"gpt2_untied_bf16", small_gpt2(false), "bf16"}),
                         [](const auto& i) { return std::string(i.param.name); });

TEST_P(EachModel, GradientsDoNotDependOnTheMicroBatch) {
  const Result one = learn(config(), options());
  for (const i64 micro : {2, 4}) {
    RigOptions o = options();
    o.micro = micro;
    EXPECT_TRUE(learn(config(), o) == one) << micro;
  }
}

TEST_P(EachModel, GradientsDoNotDependOnWhatIsRecomputed) {
  const Result none = learn(config(), options());
  for (const Recompute r : {Recompute::attention, Recompute::block}) {
    RigOptions o = options();
    o.recompute = r;
    EXPECT_TRUE(learn(config(), o) == none) << static_cast<int>(r);
  }
}

TEST_P(EachModel, GradientsDoNotDependOnTheNumberOfThreads) {
  const kernels::Kernels& best = kernels::select("auto");
  RigOptions o = options();
  o.kernels = &best;
  o.micro = 4;
  const Result one = learn(config(), o);
  for (const int threads : {2, 3, 4}) {
    o.threads = threads;
    EXPECT_TRUE(learn(config(), o) == one) << threads;
  }
}

TEST_P(EachModel, GradientsDoNotDependOnTheKernelTable) {
  const Result plain = learn(config(), options());
  for (const kernels::Kernels* table : usable()) {
    RigOptions o = options();
    o.kernels = table;
    EXPECT_TRUE(learn(config(), o) == plain) << table->name;
  }
}

TEST_P(EachModel, GradientsDoNotDependOnThePadding) {
  const Result least = learn(config(), options());
  RigOptions o = options();
  o.time = padded_time(config().context) + kTimeMultiple;
  EXPECT_TRUE(learn(config(), o, o.time) == least);
}

TEST_P(EachModel, EvaluationGivesTheLossOfTraining) {
  Rig rig(config(), options());
  const Text text(config(), 4, 3);
  EXPECT_EQ(rig.evaluate(text), rig.learn(text));
}

TEST_P(EachModel, RealMemoryIsWhatTheDryRunMeasured) {
  for (const Recompute r : {Recompute::none, Recompute::attention, Recompute::block}) {
    RigOptions o = options();
    o.recompute = r;
    o.micro = 2;
    Rig rig(config(), o);
    const Text text(config(), 4, 3);
    rig.learn(text);
    rig.evaluate(text);
    EXPECT_EQ(rig.memory().peaks(), rig.measured().peaks()) << static_cast<int>(r);
    EXPECT_EQ(rig.memory().keep.used(), 0);
    EXPECT_EQ(rig.memory().temp.used(), 0);
  }
}

TEST_P(EachModel, RecomputingMoreKeepsLess) {
  std::vector<i64> kept;
  for (const Recompute r : {Recompute::none, Recompute::attention, Recompute::block}) {
    RigOptions o = options();
    o.recompute = r;
    kept.push_back(Rig(config(), o).measured().keep.peak());
  }
  EXPECT_GT(kept[0], kept[1]);
  EXPECT_GT(kept[1], kept[2]);
}

TEST_P(EachModel, PaddingOfTheVocabularyLearnsNothing) {
  Rig rig(config(), options());
  rig.learn(Text(config(), 4, 3));
  const parallel::Param* head = rig.params().find("head");
  const parallel::Param& p = head ? *head : rig.params().at("embed.token");
  for (i64 v = config().tokens; v < config().vocab; ++v)
    for (i64 i = 0; i < config().width; ++i) EXPECT_EQ(Rig::get(p.grad, v, i), 0);
}

// Documents of one sequence: whatever is written in the first, the others' logits stay.
TEST_P(EachModel, EditingADocumentChangesNoLogitOfAnother) {
  Rig rig(config(), options());
  Text text(config(), 1, 3);
  const std::vector<double> before = rig.logits(text);
  const i64 V = config().tokens;
  i64 own = 0, others = 0, edited = -1;
  for (i64 t = 0; t < text.time && edited < 0; ++t)
    if (text.doc_start[static_cast<std::size_t>(t)] > 0) edited = t - 1;
  ASSERT_GT(edited, 0) << "the text has one document only";
  for (i64 t = 0; t <= edited; ++t) {
    i32& id = text.ids[static_cast<std::size_t>(t)];
    id = static_cast<i32>((id + 1) % V);
  }
  const std::vector<double> after = rig.logits(text);
  for (i64 i = 0; i < static_cast<i64>(before.size()); ++i) {
    const auto at = static_cast<std::size_t>(i);
    (i / V <= edited ? own : others) += before[at] != after[at];
  }
  EXPECT_GT(own, 0);
  EXPECT_EQ(others, 0);
}

// Each of two layers looks back over 8 tokens beside its own: the first token reaches the 17th.
TEST(Window, BoundsHowFarATokenIsSeen) {
  const ModelConfig m = small_llama();
  Rig rig(m, {});
  Text text(m, 1, 3);
  std::fill(text.doc_start.begin(), text.doc_start.begin() + m.context, 0);
  const std::vector<double> before = rig.logits(text);
  text.ids[0] = static_cast<i32>((text.ids[0] + 1) % m.tokens);
  const std::vector<double> after = rig.logits(text);
  i64 last = -1;
  for (i64 i = 0; i < static_cast<i64>(before.size()); ++i)
    if (before[static_cast<std::size_t>(i)] != after[static_cast<std::size_t>(i)])
      last = i / m.tokens;
  EXPECT_EQ(last, m.layers * (m.window - 1));
}

}  // namespace
}  // namespace lathe::model
