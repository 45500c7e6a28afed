#include "lathe/train/config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/model/config.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/recipe.h"
#include "lathe/numerics/recipe_file.h"
#include "tests/support/temporary_folder.h"

namespace lathe::train {
namespace {

RunConfig read(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return read_run(ConfigFile::parse(text, "run.toml", overrides));
}

/// A run without data: the vocabulary is given.
const std::string kModel = "[model]\nvocab = 4096\n";

std::string report(const std::string& text, const std::vector<std::string>& overrides = {}) {
  try {
    read(text, overrides);
  } catch (const Error& e) {
    return e.report();
  }
  return "no error";
}

TEST(RunConfig, DefaultsAreFilledInFromTheModelsFamily) {
  const model::ModelConfig llama = read(kModel).model;
  EXPECT_EQ(llama.kv_heads, 8);
  EXPECT_EQ(llama.head_dim, 32);
  EXPECT_EQ(llama.hidden, 704);  // 8/3 of 256 is 682.7
  EXPECT_EQ(llama.tied, 0);
  EXPECT_EQ(llama.tokens, 4096);
  const model::ModelConfig gpt2 = read(kModel, {"model.family=gpt2"}).model;
  EXPECT_EQ(gpt2.hidden, 1024);
  EXPECT_EQ(gpt2.tied, 1);
}

TEST(RunConfig, WhatIsPrintedReadsBackTheSame) {
  const RunConfig c =
      read(kModel, {"optimizer.lr=0.00031415926535", "train.sample_prompt=say \"hi\"\\",
                    "schedule.name=wsd", "model.kv_heads=2", "run.folder=runs/a b"});
  const std::string text = to_toml(c);
  EXPECT_EQ(to_toml(read(text)), text);
  EXPECT_EQ(results_hash(read(text)), results_hash(c));
}

TEST(RunConfig, TheReferenceIsARunFileOfDefaults) {
  const RunConfig c = read(reference_toml(), {"model.vocab=4096"});
  EXPECT_EQ(to_toml(c), to_toml(read(kModel)));
}

TEST(RunConfig, EveryKeyHasAMeaning) {
  for (const KeyDoc& k : reference()) EXPECT_FALSE(k.about.empty()) << k.key;
}

TEST(RunConfig, TheDocumentedReferenceIsTheProgramsOwn) {
  const std::string page = read_file("docs/configuration.md");
  EXPECT_NE(page.find("```toml\n" + reference_toml() + "```\n"), std::string::npos)
      << "put what `lathe train --keys` prints into docs/configuration.md";
}

TEST(RunConfig, HeadsThatDoNotDivideListTheOnesThatDo) {
  EXPECT_EQ(report("[model]\nvocab = 64\nwidth = 12\n\nheads = 5\n"),
            "error: model.heads = 5 does not divide model.width = 12\n  --> run.toml:5\n"
            "  hint: use a divisor of 12 (1, 2, 3, 4, 6, 12), or set model.head_dim\n");
  EXPECT_EQ(report("[model]\nvocab = 64\nheads = 8\nkv_heads = 3\n"),
            "error: model.kv_heads = 3 does not divide model.heads = 8\n  --> run.toml:4\n"
            "  hint: use one of 1, 2, 4, 8\n");
  EXPECT_NE(report(kModel, {"model.kv_heads=16"}).find("model.kv_heads = 16"), std::string::npos);
  EXPECT_EQ(report(kModel, {"model.width=24"}),
            "error: model.head_dim = 3 must be even: RoPE turns pairs of elements\n"
            "  --> run.toml\n"
            "  hint: set model.heads so that width / heads is even, or model.head_dim = 4\n");
  EXPECT_EQ(report(kModel, {"model.width=24", "model.head_dim=4"}), "no error");
}

TEST(RunConfig, KeysOfTheOtherFamilyAreRefused) {
  for (const char* o :
       {"model.kv_heads=2", "model.qkv_bias=true", "model.qk_norm=true", "model.rope_theta=5000"}) {
    EXPECT_EQ(report(kModel, {o}), "no error") << o;
    EXPECT_NE(report(kModel, {o, "model.family=gpt2"}).find("for family \"llama\""),
              std::string::npos)
        << o;
  }
}

TEST(RunConfig, AMicroBatchMustDivideTheGlobalOne) {
  EXPECT_EQ(report("[train]\nglobal_batch = 12\nmicro_batch = 5\n" + kModel),
            "error: train.micro_batch = 5 does not divide train.global_batch = 12\n"
            "  --> run.toml:3\n  hint: use one of 1, 2, 3, 4, 6, 12\n");
}

TEST(RunConfig, TheScheduleMustFitTheRun) {
  EXPECT_EQ(report("[train]\nsteps = 10\n[schedule]\nwarmup = 11\n" + kModel),
            "error: schedule.warmup = 11 is longer than train.steps = 10\n  --> run.toml:4\n"
            "  hint: use 10 or less\n");
  EXPECT_NE(report(kModel,
                   {"schedule.name=wsd", "train.steps=10", "schedule.warmup=5", "schedule.decay=6"})
                .find("use 5 or less"),
            std::string::npos);
  EXPECT_NE(report(kModel, {"schedule.decay=6"}).find("is for schedule \"wsd\""),
            std::string::npos);
  EXPECT_EQ(read(kModel, {"schedule.name=wsd", "train.steps=200"}).schedule.decay, 20);
}

TEST(RunConfig, DoublePrecisionRunsOnTheReferenceKernelsOnly) {
  EXPECT_EQ(read(kModel, {"train.recipe=fp64"}).run.kernels, "ref");
  EXPECT_EQ(report(kModel, {"train.recipe=fp64", "run.kernels=avx2"}),
            "error: run.kernels = \"avx2\" does not know recipe \"fp64\"\n"
            "  --> --set run.kernels=avx2\n  hint: set run.kernels = \"ref\"\n");
}

TEST(RunConfig, EveryNamedRecipeCanBeAskedFor) {
  for (const numerics::Recipe& r : numerics::recipes()) {
    // Sizes that all blocks divide.
    const RunConfig c =
        read(kModel, {"train.recipe=" + r.name, "model.hidden=768", "model.width=512"});
    EXPECT_EQ(recipe_of(c), r);
    EXPECT_EQ(read(to_toml(c)).train.recipe, r.name);
  }
  const std::string unknown = report("[train]\nrecipe = \"mxfp9\"\n" + kModel);
  EXPECT_NE(unknown.find("run.toml:2\n  hint: did you mean \"mxfp8\"?"), std::string::npos)
      << unknown;
  EXPECT_NE(unknown.find("or a file ending in .toml"), std::string::npos) << unknown;
}

TEST(RunConfig, TheReferenceListsEveryRecipe) {
  for (const KeyDoc& k : reference())
    if (k.key == "train.recipe") {
      EXPECT_EQ(k.choices, numerics::recipe_names());
    }
}

TEST(RunConfig, ARecipesPathStartsFromTheRunFile) {
  const testing_support::TemporaryFolder folder;
  make_folders(folder / "sub");
  std::ofstream(folder / "sub/mine.toml") << "base = \"mxfp8\"\n";
  std::ofstream(folder / "run.toml") << "[train]\nrecipe = \"sub/mine.toml\"\n" << kModel;
  const RunConfig c = read_run(ConfigFile::read(folder / "run.toml"));
  EXPECT_EQ(recipe_of(c).name, "mine");
  EXPECT_EQ(recipe_of(c).linear, numerics::recipe("mxfp8").linear);
  EXPECT_NE(to_toml(c).find("recipe = \"recipe.toml\""), std::string::npos);
  const std::string missing = report("[train]\nrecipe = \"gone.toml\"\n" + kModel);
  EXPECT_NE(missing.find("train.recipe = \"gone.toml\": there is no file gone.toml\n"
                         "  --> run.toml:2\n"),
            std::string::npos)
      << missing;
}

TEST(RunConfig, TheExamplesOfRecipesFitTheSmallestRun) {
  int found = 0;
  for (const auto& e : std::filesystem::directory_iterator("configs/recipes")) {
    const RunConfig c = read(kModel, {"train.recipe=" + e.path().string()});
    EXPECT_EQ(recipe_of(c).name, e.path().stem().string());
    ++found;
  }
  EXPECT_GE(found, 2);
}

TEST(RunConfig, TheAblationExampleIsNvfp4WithoutItsRecipe) {
  const numerics::Recipe r = numerics::read_recipe("configs/recipes/nvfp4-ablation.toml");
  const numerics::Encoding plain{.format = numerics::Format::e2m1,
                                 .scaling = numerics::Scaling::nvfp4};
  EXPECT_EQ(r.linear, numerics::products_of(plain, plain, plain));
  ASSERT_EQ(r.overrides.size(), 1U);
  EXPECT_EQ(r.overrides[0].match, "head");
}

TEST(RunConfig, BlocksMustDivideWhatAProductSumsOver) {
  EXPECT_EQ(report("[train]\nrecipe = \"fp8-deepseek\"\n[model]\nvocab = 64\nhidden = 704\n"),
            "error: model.hidden = 704 is no multiple of the 128 elements that share a scale in "
            "recipe \"fp8-deepseek\" (layers.0.mlp.down)\n  --> run.toml:5\n"
            "  hint: set model.hidden to 640 or 768, or use another recipe\n");
  // At the recipe's line where the size is a default: 8/3 of 256, up to a multiple of 64.
  EXPECT_NE(report("[train]\nrecipe = \"fp8-deepseek\"\n" + kModel).find("--> run.toml:2"),
            std::string::npos);
  EXPECT_EQ(report(kModel, {"train.recipe=fp8-deepseek", "model.hidden=640"}), "no error");
  const std::string width = report(kModel, {"train.recipe=mxfp8", "model.width=240"});
  EXPECT_NE(width.find("model.width = 240 is no multiple of the 32 elements"), std::string::npos)
      << width;
  EXPECT_NE(width.find("224 or 256"), std::string::npos) << width;
  // Rows of the query, key and value matrix: (8 + 2 * 1) * 8.
  const std::string heads =
      report(kModel, {"train.recipe=mxfp8", "model.head_dim=8", "model.kv_heads=1",
                      "model.hidden=64", "model.heads=8"});
  EXPECT_NE(heads.find("model.head_dim = 8, times 10, is no multiple of the 32"), std::string::npos)
      << heads;
  EXPECT_NE(heads.find("set model.head_dim to 16"), std::string::npos) << heads;
  EXPECT_EQ(report(kModel, {"train.recipe=bf16", "model.width=240"}), "no error");
}

TEST(RunConfig, TransformsNeedWholeBlocks) {
  const testing_support::TemporaryFolder folder;
  std::ofstream(folder / "turned.toml")
      << "base = \"bf16\"\n[grad_x]\ndy = {hadamard = 64}\nw = {hadamard = 64}\n";
  const std::string r = report(kModel, {"train.recipe=" + folder / "turned.toml", "model.width=288",
                                        "model.hidden=64", "model.heads=9"});
  EXPECT_NE(r.find("is no multiple of the 64 elements of a Hadamard transform"), std::string::npos)
      << r;
}

TEST(RunConfig, AnOverrideThatFitsNoParameterIsRefused) {
  const testing_support::TemporaryFolder folder;
  std::ofstream(folder / "r.toml")
      << "base = \"bf16\"\n[override.down]\nmatch = \"layer.*\"\nrecipe = \"mxfp8\"\n";
  const std::string r = report(kModel, {"train.recipe=" + folder / "r.toml"});
  EXPECT_NE(r.find("override \"down\" of recipe \"r\" fits no parameter: match = \"layer.*\""),
            std::string::npos)
      << r;
  EXPECT_NE(r.find("layers.0.mlp.down"), std::string::npos) << r;
}

TEST(RunConfig, TheMicroBatchDecidesResultsWhereScalesSpanIt) {
  const auto hash = [](const std::string& recipe, const std::string& micro) {
    return results_hash(read(kModel, {"train.recipe=" + recipe, "train.micro_batch=" + micro}));
  };
  EXPECT_EQ(hash("mxfp8", "2"), hash("mxfp8", "4"));
  EXPECT_NE(hash("fp8-hybrid-current", "2"), hash("fp8-hybrid-current", "4"));
}

TEST(RunConfig, ARecipeThatChangesDuringTheRunFixesItsLength) {
  const auto hash = [](const std::string& recipe, const std::string& steps) {
    return results_hash(
        read(kModel, {"train.recipe=" + recipe, "schedule.name=constant", "train.steps=" + steps}));
  };
  EXPECT_EQ(hash("mxfp4", "100"), hash("mxfp4", "900"));
  EXPECT_NE(hash("nvfp4", "100"), hash("nvfp4", "900"));
}

TEST(RunConfig, AVocabularyThatNobodyKnowsIsAnError) {
  EXPECT_NE(report("").find("model.vocab is not known"), std::string::npos);
  const std::string r = report("[data]\nshards = \"no/such/folder\"\n");
  EXPECT_NE(r.find("run.toml:2"), std::string::npos) << r;
  EXPECT_NE(r.find("lathe data"), std::string::npos) << r;
}

TEST(RunConfig, MoreIdsThanTheVocabularyHoldsAreAnError) {
  EXPECT_EQ(report("[model]\nvocab = 100\ntokens = 101\n"),
            "error: model.vocab = 100 is smaller than the 101 ids of the tokenizer\n"
            "  --> run.toml:2\n  hint: use 128 or more, or 0 to take the tokenizer's\n");
}

TEST(RunConfig, HeadsThatAttentionCannotHoldAreRefused) {
  EXPECT_EQ(report(kModel, {"model.head_dim=512"}), "no error");
  EXPECT_NE(report(kModel, {"model.head_dim=514"}).find("at most 512"), std::string::npos);
  EXPECT_EQ(report(kModel, {"train.recipe=fp64", "model.head_dim=256"}), "no error");
  EXPECT_NE(report(kModel, {"train.recipe=fp64", "model.head_dim=258"}).find("at most 256"),
            std::string::npos);
  const std::vector<std::string> wide{"model.heads=4096", "model.width=8192", "model.kv_heads=2"};
  EXPECT_NE(report(kModel, wide).find("use 4 or more"), std::string::npos);
}

TEST(RunConfig, SizesThatWouldOverflowAreRefused) {
  const std::string most = "=9223372036854775807";
  for (const char* key : {"model.vocab", "model.layers", "model.width", "model.heads",
                          "model.kv_heads", "model.head_dim", "model.hidden", "model.context",
                          "model.window", "train.steps", "train.global_batch", "model.tokens",
                          "train.micro_batch", "schedule.warmup", "schedule.decay"})
    EXPECT_NE(report(kModel, {key + most}).find("error: "), std::string::npos) << key;
  EXPECT_NE(report(kModel, {"train.global_batch" + most, "train.micro_batch=1"}).find("too many"),
            std::string::npos);
}

TEST(RunConfig, TheHashChangesWithWhatDecidesResultsAndWithNothingElse) {
  const std::string plain = results_hash(read(kModel));
  for (const char* o : {"run.folder=elsewhere", "run.threads=3", "run.kernels=ref",
                        "train.micro_batch=2", "train.recompute=block", "train.checkpoint_every=7",
                        "train.keep_checkpoints=9", "train.eval_every=3", "train.eval_sequences=5",
                        "train.sample_prompt=x", "train.sample_tokens=1"})
    EXPECT_EQ(results_hash(read(kModel, {o})), plain) << o;
  for (const char* o :
       {"run.seed=2", "data.shards=x", "model.layers=5", "model.qk_norm=true", "train.steps=100",
        "train.global_batch=32", "train.recipe=fp32", "optimizer.lr=0.0010000001",
        "optimizer.clip=0", "schedule.warmup=1", "schedule.name=linear", "schedule.min_ratio=0"})
    EXPECT_NE(results_hash(read(kModel, {o})), plain) << o;
}

TEST(RunConfig, TheHashKnowsHowStatesAreStoredButForTheDefaults) {
  const std::string plain = results_hash(read(kModel));
  EXPECT_EQ(results_hash(read(kModel, {"optimizer.moments=fp32", "optimizer.weights=master",
                                       "optimizer.gradients=fp32"})),
            plain);
  for (const char* o : {"optimizer.moments=bf16", "optimizer.moments=fp8", "optimizer.moments=8bit",
                        "optimizer.weights=bf16", "optimizer.gradients=bf16"})
    EXPECT_NE(results_hash(read(kModel, {o})), plain) << o;
  const std::string stored = "optimizer.gradients=bf16";
  EXPECT_NE(results_hash(read(kModel, {stored, "train.micro_batch=2"})),
            results_hash(read(kModel, {stored})))
      << "sums are rounded after each";
}

TEST(RunConfig, NothingOfTheYardstickIsStoredInLess) {
  for (const char* o :
       {"optimizer.moments=8bit", "optimizer.weights=bf16", "optimizer.gradients=bf16"}) {
    const std::string said = report(kModel, {"train.recipe=fp64", o});
    const std::string key = std::string(o).substr(0, std::string(o).find('='));
    EXPECT_NE(said.find(key), std::string::npos) << said;
    EXPECT_NE(said.find("hint"), std::string::npos) << said;
  }
  EXPECT_NE(report(kModel, {"optimizer.moments=fp9"}).find("fp8"), std::string::npos);
}

TEST(RunConfig, AConstantScheduleMayRunLonger) {
  EXPECT_EQ(results_hash(read(kModel, {"schedule.name=constant", "train.steps=100"})),
            results_hash(read(kModel, {"schedule.name=constant", "train.steps=900"})));
}

TEST(RunConfig, AnEmptyFolderNameIsRefused) {
  EXPECT_NE(report(kModel, {"run.folder="}).find("run.folder is empty"), std::string::npos);
}

}  // namespace
}  // namespace lathe::train
