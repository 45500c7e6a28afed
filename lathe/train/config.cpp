#include "lathe/train/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/config_visit.h"
#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/data/loader.h"
#include "lathe/model/config.h"
#include "lathe/numerics/recipe.h"
#include "lathe/numerics/recipe_file.h"
#include "lathe/numerics/recipe_text.h"
#include "lathe/train/recipe_fit.h"

namespace lathe::train {

namespace {

/// Ids of the tokenizer beside the shards; 0 when there are no shards (a plan needs none).
i64 tokenizer_ids(const ConfigFile& file, const RunConfig& c) {
  const std::string& shards = c.data.shards;
  if (shards.empty()) return 0;
  if (exists(shards)) return data::read_shards_info(shards).vocab;
  if (c.model.vocab > 0) return 0;
  throw file.error_at(
      "data.shards",
      Error("data.shards = \"{}\" does not exist, and model.vocab is not set either", shards)
          .hint("make it: lathe data TEXT… --vocab 4096 --out {}", shards));
}

numerics::Recipe find_recipe(const ConfigFile& file, const std::string& name) {
  if (!is_recipe_file(name)) return numerics::recipe(name);
  const std::string path = recipe_path(file, name);
  if (!exists(path))
    throw file.error_at("train.recipe",
                        Error("train.recipe = \"{}\": there is no file {}", name, path)
                            .hint("named recipes: {}", fmt::join(numerics::recipe_names(), ", ")));
  return numerics::read_recipe(path);
}

/// The key that a message begins with: "model.heads = 12 does not divide …".
std::string key_of(std::string_view message) {
  return std::string(message.substr(0, message.find_first_of(" :")));
}

void check_model(const ConfigFile& file, const model::ModelConfig& m) {
  try {
    model::check(m);
  } catch (const Error& e) {
    throw file.error_at(key_of(e.what()), e);
  }
}

std::string divisors(i64 n) {
  constexpr i64 kMost = 4096;
  std::vector<i64> d;
  for (i64 i = 1; i <= std::min(n, kMost); ++i)
    if (n % i == 0) d.push_back(i);
  return fmt::format("{}", fmt::join(d, ", "));
}

void check_batch(const ConfigFile& file, const RunConfig& c) {
  const TrainSection& t = c.train;
  if (t.global_batch % t.micro_batch != 0)
    throw file.error_at(file.find("train.micro_batch") ? "train.micro_batch" : "train.global_batch",
                        Error("train.micro_batch = {} does not divide train.global_batch = {}",
                              t.micro_batch, t.global_batch)
                            .hint("use one of {}", divisors(t.global_batch)));
  constexpr i64 kTokens = i64{1} << 30;
  if (t.global_batch > kTokens / c.model.context)
    throw file.error_at("train.global_batch",
                        Error("train.global_batch = {} sequences of {} tokens are too many",
                              t.global_batch, c.model.context)
                            .hint("at most {}", kTokens / c.model.context));
  constexpr i64 kSequences = i64{1} << 60;
  if (t.steps > kSequences / t.global_batch)
    throw file.error_at("train.steps", Error("train.steps = {} is too large", t.steps)
                                           .hint("at most {}", kSequences / t.global_batch));
}

void check_schedule(const ConfigFile& file, const RunConfig& c) {
  const ScheduleSection& s = c.schedule;
  const i64 steps = c.train.steps;
  if (s.warmup > steps)
    throw file.error_at(
        "schedule.warmup",
        Error("schedule.warmup = {} is longer than train.steps = {}", s.warmup, steps)
            .hint("use {} or less", steps));
  if (s.name != "wsd" && s.decay > 0)
    throw file.error_at(
        "schedule.decay",
        Error("schedule.decay = {} is for schedule \"wsd\", not \"{}\"", s.decay, s.name)
            .hint("leave it out, or set schedule.name = \"wsd\""));
  if (s.name == "wsd" && s.decay > steps - s.warmup)
    throw file.error_at("schedule.decay",
                        Error("schedule.decay = {} does not fit after {} steps of warm-up in {}",
                              s.decay, s.warmup, steps)
                            .hint("use {} or less", steps - s.warmup));
}

/// FP64 is a yardstick: nothing in it is stored in less.
void check_fp64_storage(const ConfigFile& file, const OptimizerSection& o) {
  const OptimizerSection plain;
  const auto check = [&](const char* key, const std::string& value, const std::string& only) {
    if (value != only)
      throw file.error_at(key, Error("{} = \"{}\" is not for recipe \"fp64\"", key, value)
                                   .hint("leave it out, or set train.recipe = \"fp32\""));
  };
  check("optimizer.moments", o.moments, plain.moments);
  check("optimizer.weights", o.weights, plain.weights);
  check("optimizer.gradients", o.gradients, plain.gradients);
}

void check_recipe(const ConfigFile& file, RunConfig& c) {
  check_fit(file, c);
  if (c.recipe.master != DType::f64) return;
  check_fp64_storage(file, c.optimizer);
  if (c.train.fidelity_every > 0)
    throw file.error_at("train.fidelity_every",
                        Error("train.fidelity_every = {}: recipe \"{}\" encodes nothing",
                              c.train.fidelity_every, c.recipe.name)
                            .hint("leave it out, or use another recipe"));
  if (c.run.kernels == "auto") c.run.kernels = "ref";
  if (c.run.kernels != "ref")
    throw file.error_at("run.kernels", Error("run.kernels = \"{}\" does not know recipe \"{}\"",
                                             c.run.kernels, c.recipe.name)
                                           .hint("set run.kernels = \"ref\""));
  // Twice the bytes an element: half the elements that attention's scratch holds.
  constexpr i64 kMostHeadDim = 256;
  if (c.model.head_dim > kMostHeadDim)
    throw file.error_at("model.head_dim", Error("model.head_dim = {} is too large for \"{}\"",
                                                c.model.head_dim, c.recipe.name)
                                              .hint("at most {}", kMostHeadDim));
}

void check_names(const ConfigFile& file, const RunConfig& c) {
  if (c.run.folder.empty())
    throw file.error_at(
        "run.folder",
        Error("run.folder is empty").hint("for example: run.folder = \"runs/first\""));
}

void resolve_schedule(RunConfig& c) {
  if (c.schedule.name == "wsd" && c.schedule.decay == 0)
    c.schedule.decay =
        std::min(std::max<i64>(1, c.train.steps / 10), c.train.steps - c.schedule.warmup);
}

/// Whether the length of a run decides which products its steps take.
bool looks_at_steps(const numerics::Recipe& r) {
  return std::any_of(r.overrides.begin(), r.overrides.end(),
                     [](const numerics::Override& o) { return o.from > 0 || o.until < 1; });
}

std::vector<std::pair<std::string, std::string>> all_values(const RunConfig& c) {
  RunConfig copy = c;
  if (is_recipe_file(copy.train.recipe)) copy.train.recipe = kRecipeFile;
  Lister l;
  visit(l, copy);
  return l.values();
}

}  // namespace

RunConfig read_run(const ConfigFile& file) {
  RunConfig c;
  Reader r(file);
  visit(r, c);
  r.finish();
  check_names(file, c);
  c.recipe = find_recipe(file, c.train.recipe);
  const i64 ids = tokenizer_ids(file, c);
  model::resolve(c.model, ids);
  if (c.model.tokens < ids)
    throw file.error_at("model.tokens", Error("model.tokens = {} is less than the {} ids of the "
                                              "tokenizer in {}",
                                              c.model.tokens, ids, c.data.shards)
                                            .hint("leave model.tokens out"));
  check_model(file, c.model);
  check_batch(file, c);
  check_schedule(file, c);
  check_recipe(file, c);
  resolve_schedule(c);
  return c;
}

std::string to_toml(const RunConfig& c) { return lathe::to_toml(all_values(c)); }

std::vector<KeyDoc> reference() {
  RunConfig c;
  Documenter d;
  visit(d, c);
  return d.keys();
}

std::string reference_toml() {
  std::string text, section;
  for (const KeyDoc& k : reference()) {
    const std::string::size_type dot = k.key.find('.');
    if (k.key.substr(0, dot) != section) {
      section = k.key.substr(0, dot);
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", section);
    }
    const std::string values =
        k.choices.empty() ? k.type : fmt::format("one of {}", fmt::join(k.choices, ", "));
    text += fmt::format("# {} ({})\n{} = {}\n", k.about, values, k.key.substr(dot + 1), k.value);
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> results_keys(const RunConfig& c) {
  static constexpr std::array<std::string_view, 11> kFree{"run.folder",
                                                          "run.threads",
                                                          "run.kernels",
                                                          "train.recompute",
                                                          "train.checkpoint_every",
                                                          "train.fidelity_every",
                                                          "train.eval_every",
                                                          "train.eval_sequences",
                                                          "train.keep_checkpoints",
                                                          "train.sample_prompt",
                                                          "train.sample_tokens"};
  // A checkpoint from before these keys is one of their defaults.
  static const std::array<std::pair<std::string, std::string>, 3> kLater{
      {{"optimizer.moments", "\"fp32\""},
       {"optimizer.weights", "\"master\""},
       {"optimizer.gradients", "\"fp32\""}}};
  std::vector<std::pair<std::string, std::string>> keys = all_values(c);
  std::erase_if(keys, [&](const auto& k) {
    if (k.first == "train.steps") return c.schedule.name == "constant" && !looks_at_steps(c.recipe);
    if (k.first == "train.micro_batch")
      return c.optimizer.gradients == "fp32" && !numerics::spans_micro_batch(c.recipe);
    const auto at_default = std::find(kLater.begin(), kLater.end(), k);
    if (at_default != kLater.end()) return true;
    return std::find(kFree.begin(), kFree.end(), k.first) != kFree.end();
  });
  for (auto& [key, value] : keys)
    if (key == "train.recipe") value = toml_value(c.recipe.name);
  for (const auto& [key, value] : numerics::results_keys(c.recipe))
    keys.emplace_back("recipe." + key, value);
  return keys;
}

std::string results_hash(const RunConfig& c) { return hash_hex(lathe::to_toml(results_keys(c))); }

}  // namespace lathe::train
