#pragma once
// A run file: every section, every key, its default and its meaning.

#include <string>
#include <utility>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/model/config.h"
#include "lathe/numerics/recipe.h"

namespace lathe::train {

struct RunSection {
  std::string folder = "runs/run";
  i64 seed = 1;
  i64 threads = 0;
  std::string kernels = "auto";
};

struct DataSection {
  std::string shards;
};

struct TrainSection {
  i64 steps = 200;
  i64 global_batch = 16;
  i64 micro_batch = 4;
  std::string recipe = "bf16";
  std::string recompute = "none";
  i64 checkpoint_every = 100;
  i64 keep_checkpoints = 3;
  i64 eval_every = 100;
  i64 eval_sequences = 64;
  i64 fidelity_every = 0;
  std::string sample_prompt;
  i64 sample_tokens = 64;
};

struct OptimizerSection {
  std::string name = "adamw";
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1, clip = 1.0;
  std::string moments = "fp32", weights = "master", gradients = "fp32";
};

struct ScheduleSection {
  std::string name = "cosine";
  i64 warmup = 0;
  i64 decay = 0;
  double min_ratio = 0.1;
};

struct RunConfig {
  RunSection run;
  DataSection data;
  model::ModelConfig model;
  TrainSection train;
  OptimizerSection optimizer;
  ScheduleSection schedule;
  numerics::Recipe recipe = numerics::recipe("bf16");  // what train.recipe names; see recipe_of
};

template <class V>
void visit(V& v, RunSection& c) {
  v("folder", c.folder, "where the run's log, checkpoints and resolved configuration go");
  v("seed", c.seed, "of initialisation, data order and sampling", at_least(0));
  v("threads", c.threads, "worker threads; 0: every core this process may use", between(0, 1024));
  v("kernels", c.kernels, "kernel table; auto: the best that this machine runs",
    one_of({"auto", "ref", "avx2", "avx512", "avx512bf16", "amx"}));
}
template <class V>
void visit(V& v, DataSection& c) {
  v("shards", c.shards, "folder that `lathe data` wrote: tokenizer, training and held-out tokens");
}
template <class V>
void visit(V& v, TrainSection& c) {
  v("steps", c.steps, "optimizer steps of the whole run", at_least(1));
  v("global_batch", c.global_batch, "sequences that one optimizer step sees", at_least(1));
  v("micro_batch", c.micro_batch,
    "sequences that go through the model at once: memory grows with it, results do not change but "
    "where a recipe's scales span a micro-batch",
    at_least(1));
  v("recipe", c.recipe,
    "number formats of products and of what lies between them, or the path of a .toml file that "
    "says them (docs/recipes.md)",
    Rule{.choices = numerics::recipe_names(), .or_ending = ".toml"});
  v("recompute", c.recompute,
    "what backward computes again rather than keeps: less memory, more time",
    one_of({"none", "attention", "block"}));
  v("checkpoint_every", c.checkpoint_every, "steps between checkpoints; 0: only at the end",
    at_least(0));
  v("keep_checkpoints", c.keep_checkpoints, "newest checkpoints that are kept", at_least(1));
  v("eval_every", c.eval_every, "steps between evaluations on held-out text; 0: only at the end",
    at_least(0));
  v("eval_sequences", c.eval_sequences,
    "held-out sequences of one evaluation, always the same ones", at_least(1));
  v("fidelity_every", c.fidelity_every,
    "steps between measurements of what the recipe does to every operand; 0: none", at_least(0));
  v("sample_prompt", c.sample_prompt,
    "text that is continued at every evaluation and shown in the report");
  v("sample_tokens", c.sample_tokens, "tokens of such a sample; 0: none", at_least(0));
}
template <class V>
void visit(V& v, OptimizerSection& c) {
  v("name", c.name, "update rule", one_of({"adamw"}));
  v("lr", c.lr, "peak learning rate", between(0, 1e6));
  v("beta1", c.beta1, "decay of the first moment", between(0, 0.999999999));
  v("beta2", c.beta2, "decay of the second moment", between(0, 0.999999999));
  v("eps", c.eps, "added to the root of the second moment", between(0, 1));
  v("weight_decay", c.weight_decay,
    "decoupled decay of matrices; never of gains, biases, positions", between(0, 1e3));
  v("clip", c.clip, "largest global gradient norm; 0: no clipping", at_least(0));
  v("moments", c.moments,
    "how both moments are stored: fp32; bf16, rounded stochastically; fp8: E4M3 in groups of 128 "
    "with dynamic range expansion; 8bit: dynamic maps in blocks of 256",
    one_of({"fp32", "bf16", "fp8", "8bit"}));
  v("weights", c.weights,
    "master: FP32 masters; bf16: matrices and embeddings in BF16, rounded stochastically, without",
    one_of({"master", "bf16"}));
  v("gradients", c.gradients,
    "bf16: those of products' weights are summed in FP32 and stored in BF16 after each micro-batch",
    one_of({"fp32", "bf16"}));
}
template <class V>
void visit(V& v, ScheduleSection& c) {
  v("name", c.name, "learning rate over the run", one_of({"constant", "linear", "cosine", "wsd"}));
  v("warmup", c.warmup, "steps of linear warm-up from 0", at_least(0));
  v("decay", c.decay, "wsd: steps of the final linear decay; 0: a tenth of the run", at_least(0));
  v("min_ratio", c.min_ratio, "final learning rate as a share of the peak", between(0, 1));
}
template <class V>
void visit(V& v, RunConfig& c) {
  v.section("run", c.run);
  v.section("data", c.data);
  v.section("model", c.model);
  v.section("train", c.train);
  v.section("optimizer", c.optimizer);
  v.section("schedule", c.schedule);
}

/// What products and all between them are written down as.
inline const numerics::Recipe& recipe_of(const RunConfig& c) { return c.recipe; }

/// Reads, fills in defaults that depend on the tokenizer (vocabulary), and checks across fields;
/// every error names the key and its line.
RunConfig read_run(const ConfigFile& file);

/// What a user's recipe is called in a resolved configuration: numerics::to_toml of it lies in a
/// file of that name beside.
inline constexpr const char* kRecipeFile = "recipe.toml";

/// The resolved configuration as TOML that reads back to the same values.
std::string to_toml(const RunConfig& c);

/// Every key with its default and meaning.
std::vector<KeyDoc> reference();

/// The same as a run file of defaults in which a comment explains every key.
std::string reference_toml();

/// Every key that decides a run's results, with its value as TOML writes it: not the folder,
/// threads, kernels, recompute, checkpoints, evaluation or samples; train.steps only where the
/// schedule or the recipe looks at it; train.micro_batch only where a scale of the recipe spans it
/// or sums are rounded between two of them; how moments, weights and gradients are stored only
/// where it is not the default. The whole recipe is among them, as "recipe.forward.x.format" and so
/// on; train.recipe is its name.
std::vector<std::pair<std::string, std::string>> results_keys(const RunConfig& c);

/// Hash of results_keys: a run folder holding another one is refused.
std::string results_hash(const RunConfig& c);

}  // namespace lathe::train
