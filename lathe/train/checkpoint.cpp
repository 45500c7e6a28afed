#include "lathe/train/checkpoint.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/model/config.h"
#include "lathe/model/transformer.h"
#include "lathe/numerics/recipe.h"
#include "lathe/numerics/recipe_file.h"
#include "lathe/optim/optimizer.h"
#include "lathe/parallel/params.h"
#include "lathe/train/checkpoint_names.h"
#include "lathe/train/fidelity.h"
#include "lathe/train/manifest.h"
#include "lathe/train/model_json.h"
#include "lathe/train/safetensors.h"

namespace lathe::train {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kState = "optimizer.safetensors";
constexpr const char* kRecipeState = "recipe.safetensors";
constexpr const char* kInfo = "state.json";
constexpr const char* kConfig = "config.toml";
constexpr const char* kRecipe = "recipe.toml";
// A tokenizer is read by what its name ends in.
constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kScoredTokenizer = "tokenizer.bin";  // llama2.c's

std::string to_text(const CheckpointInfo& i) {
  Json j = Json::object();
  j["step"] = i.step;
  j["steps"] = i.steps;
  j["sequences"] = i.sequences;
  j["tokens"] = i.tokens;
  j["seconds"] = i.seconds;
  j["seed"] = i.seed;
  j["recipe"] = i.recipe;
  j["results_hash"] = i.results_hash;
  j["tokenizer_hash"] = i.tokenizer_hash;
  j["tokens_hash"] = i.tokens_hash;
  j["moments"] = i.moments;
  j["weights"] = i.weights;
  j["model"] = to_json(i.model);
  return j.dump(2) + "\n";
}

CheckpointInfo read_info(const std::string& path) {
  CheckpointInfo i;
  try {
    const Json j = Json::parse(read_file(path));
    i.step = j.at("step").get<i64>();
    i.steps = j.value("steps", i64{0});
    i.sequences = j.at("sequences").get<i64>();
    i.tokens = j.at("tokens").get<i64>();
    i.seconds = j.at("seconds").get<double>();
    i.seed = j.at("seed").get<i64>();
    i.recipe = j.at("recipe").get<std::string>();
    i.results_hash = j.at("results_hash").get<std::string>();
    i.tokenizer_hash = j.at("tokenizer_hash").get<std::string>();
    i.tokens_hash = j.value("tokens_hash", i.tokens_hash);
    i.moments = j.value("moments", i.moments);
    i.weights = j.value("weights", i.weights);
    i.model = model_from_json(j.at("model"), path);
  } catch (const Json::exception& e) {
    throw Error("not the state of a checkpoint: {}", e.what()).at(path);
  }
  return i;
}

NamedTensors masters(const parallel::ParamSet& p) {
  NamedTensors all;
  for (const parallel::Param& x : p.all()) all.emplace_back(x.spec.name, x.master);
  return all;
}

void check_space(const std::string& folder, i64 need) {
  const i64 left = free_disk(folder);
  if (left >= 0 && left < need)
    throw Error("a checkpoint of {} MB does not fit the {} MB left on the disk", need / 1'000'000,
                left / 1'000'000)
        .at(folder)
        .hint("free some space, or start again with a lower train.keep_checkpoints");
}

/// Writes the files of a checkpoint one by one, noting each in the manifest.
class Files {
 public:
  explicit Files(std::string folder) : folder_(std::move(folder)) {}

  void write(const char* name, const std::string& text) {
    FileWriter w(folder_ + "/" + name);
    w.write(text);
    finish(name, w);
  }
  void write(const char* name, const NamedTensors& tensors, i64 step) {
    FileWriter w(folder_ + "/" + name);
    write_safetensors(w, tensors, {{"format", "pt"}, {"step", std::to_string(step)}});
    finish(name, w);
  }
  void write_manifest(i64 step) {
    manifest_.step = step;
    FileWriter w(folder_ + "/" + kManifestName);
    w.write(train::to_text(manifest_));
    w.finish();
    sync_folder(folder_);
  }

 private:
  void finish(const char* name, FileWriter& w) {
    w.finish();
    manifest_.files[name] = {w.written(), w.hash()};
  }

  std::string folder_;
  Manifest manifest_;
};

void write_all(const std::string& folder, const CheckpointContents& c) {
  const NamedTensors state(c.state.begin(), c.state.end());
  const NamedTensors recipe(c.recipe_state.begin(), c.recipe_state.end());
  const NamedTensors weights = masters(c.params);
  constexpr i64 kSmallFiles = 4'000'000;  // text, headers, blocks half filled
  check_space(folder,
              tensor_bytes(weights) + tensor_bytes(state) + tensor_bytes(recipe) + kSmallFiles);

  Files files(folder);
  files.write(kWeights, weights, c.info.step);
  files.write(kState, state, c.info.step);
  if (!recipe.empty()) files.write(kRecipeState, recipe, c.info.step);
  files.write(kInfo, to_text(c.info));
  files.write(kConfig, c.config_toml);
  files.write(kRecipe, c.recipe_toml);
  if (!c.tokenizer_path.empty())
    files.write(c.tokenizer_path.ends_with(".bin") ? kScoredTokenizer : kTokenizer,
                read_file(c.tokenizer_path));
  files.write_manifest(c.info.step);
}

LoadedModel load_folder(const std::string& folder) {
  const Checkpoint c(folder);
  model::check(c.info().model);
  auto recipe = std::make_unique<const numerics::Recipe>(c.recipe());
  const auto specs = model::param_specs(c.info().model);
  const parallel::Storage storage{.bf16_weights = c.info().weights == "bf16"};
  Arena measuring("weights");
  {
    const parallel::ParamSet dry(specs, *recipe, measuring, nullptr, storage);
  }
  Arena weights("weights", measuring.peak());
  parallel::ParamSet params(specs, *recipe, weights, nullptr, storage);
  c.read_weights(params);
  c.read_histories(params);
  params.choose(*recipe, c.info().step + 1, std::max<i64>(c.info().steps, 1));
  c.apply_choices(*recipe, params);
  return {c.info(),           std::move(recipe),  folder,
          c.tokenizer_path(), std::move(weights), std::move(params)};
}

}  // namespace

std::string save_checkpoint(const std::string& run_folder, const CheckpointContents& c, i64 keep) {
  const std::string all = checkpoints_folder(run_folder);
  const std::string name = checkpoint_name(c.info.step);
  const std::string temporary = all + "/" + kUnfinished + name;
  const std::string target = all + "/" + name;
  make_folders(all);
  discard(temporary);
  try {
    make_folders(temporary);
    write_all(temporary, c);
    // Left over from a run that stopped before it could move `latest`, or found damaged.
    if (read_latest(run_folder) != name) discard(target);
    rename_durably(temporary, target);
    move_latest(run_folder, target);
  } catch (...) {
    discard(temporary);
    if (!is_latest(run_folder, name)) discard(target);
    throw;
  }
  prune(run_folder, c.info.step, keep);
  return target;
}

Checkpoint::Checkpoint(std::string folder) : folder_(std::move(folder)) {
  const Manifest m = read_verified(folder_);
  for (const char* name : {kWeights, kState, kInfo, kConfig})
    if (!m.files.contains(name))
      throw Error("the checkpoint's manifest does not name {}", name)
          .at(folder_ + "/" + kManifestName);
  const auto path_of = [&](const char* name) {
    return m.files.contains(name) ? folder_ + "/" + name : std::string();
  };
  recipe_path_ = path_of(kRecipe);
  recipe_state_path_ = path_of(kRecipeState);
  tokenizer_path_ = path_of(kTokenizer);
  if (tokenizer_path_.empty()) tokenizer_path_ = path_of(kScoredTokenizer);
  info_ = read_info(folder_ + "/" + kInfo);
}

void Checkpoint::check_storage(const std::string& moments, const std::string& weights) const {
  const auto check = [&](const char* key, const std::string& there, const std::string& here) {
    if (there != here)
      throw Error("the checkpoint was written with {} = \"{}\", this run has \"{}\"", key, there,
                  here)
          .at(folder_)
          .hint("--set {}={}", key, there);
  };
  check("optimizer.moments", info_.moments, moments);
  check("optimizer.weights", info_.weights, weights);
}

numerics::Recipe Checkpoint::recipe() const {
  return recipe_path_.empty() ? numerics::recipe(info_.recipe)
                              : numerics::read_recipe(recipe_path_);
}

void Checkpoint::read_weights(parallel::ParamSet& p) const {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const parallel::Param& x : p.all()) all.emplace_back(x.spec.name, x.master);
  SafeTensors(folder_ + "/" + kWeights).read_into(all, "the model");
}

void Checkpoint::read_state(optim::Optimizer& o) const {
  SafeTensors(folder_ + "/" + kState).read_into(o.state(), "the optimizer");
}

void Checkpoint::read_recipe_state(const std::vector<std::pair<std::string, Tensor>>& state) const {
  if (!recipe_state_path_.empty())
    return SafeTensors(recipe_state_path_).read_into(state, "the recipe");
  if (!state.empty())
    throw Error("the recipe has state ('{}'), the checkpoint none", state.front().first)
        .at(folder_)
        .hint("use another folder: --set run.folder=…");
}

void Checkpoint::read_some(const std::vector<std::pair<std::string, Tensor>>& state) const {
  if (recipe_state_path_.empty()) return read_recipe_state(state);
  SafeTensors(recipe_state_path_).read_into(state, "the recipe", Leftover::allowed);
}

void Checkpoint::read_histories(const parallel::ParamSet& p) const { read_some(p.histories()); }

void Checkpoint::apply_choices(const numerics::Recipe& r, parallel::ParamSet& p) const {
  if (r.adaptive.levels.empty()) return;
  Arena measured("state");
  const FidelityWatch dry(r, 0, p, measured);
  Arena state("state", measured.peak());
  const FidelityWatch watch(r, 0, p, state);
  read_some(watch.state());
  watch.apply(p);
}

LoadedModel load_model(const std::string& path, Pick pick) {
  std::string folder = find_checkpoint(path, pick);
  if (folder.empty())
    throw Error("there is no checkpoint")
        .at(path)
        .hint("name a run folder that `lathe train` has written a checkpoint to");
  for (;;) try {
      return load_folder(folder);
    } catch (const Error&) {
      // A run that trains meanwhile has moved on and taken this one away.
      const std::string now = find_checkpoint(path, pick);
      if (now == folder) throw;
      folder = now;
    }
}

}  // namespace lathe::train
