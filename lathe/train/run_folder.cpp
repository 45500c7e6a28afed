#include "lathe/train/run_folder.h"

#include <fmt/chrono.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/queue.h"
#include "lathe/base/version.h"
#include "lathe/numerics/recipe.h"
#include "lathe/numerics/recipe_file.h"
#include "lathe/numerics/recipe_text.h"
#include "lathe/train/checkpoint_names.h"
#include "lathe/train/config.h"
#include "lathe/train/manifest.h"
#include "lathe/train/recipe_fit.h"

namespace lathe::train {
namespace {

constexpr const char* kConfig = "config.toml";
constexpr const char* kLock = "lock";
constexpr const char* kCompare = "compare";  // runs of the same file in other recipes

/// A value as TOML writes it, without the quotes of a string.
std::string bare(const std::string& toml) {
  return toml.size() >= 2 && toml.front() == '"' ? toml.substr(1, toml.size() - 2) : toml;
}

std::string text_of(const ConfigFile::Value* v) {
  if (!v) return "unset";
  return std::visit([](const auto& x) { return fmt::format("{}", x); }, v->value);
}

std::string difference(const std::string& key, const std::string& there, const std::string& here) {
  return fmt::format("{} ({} there, {} now)", key, there, here);
}

/// The recipe of the run that lies in a folder.
numerics::Recipe recipe_there(const std::string& folder, const ConfigFile& config) {
  const std::string path = folder + "/" + kRecipeFile;
  if (exists(path)) return numerics::read_recipe(path);
  const std::string name = text_of(config.find("train.recipe"));
  if (is_recipe_file(name))
    throw Error("the run's own recipe is missing")
        .at(path)
        .hint("copy it back: every checkpoint holds one");
  return numerics::recipe(name);
}

/// The name alone where names differ, else each key.
std::vector<std::string> differing_keys(const numerics::Recipe& there,
                                        const numerics::Recipe& now) {
  if (there.name != now.name) return {difference("train.recipe", there.name, now.name)};
  std::map<std::string, std::pair<std::string, std::string>> values;
  for (const auto& [key, value] : numerics::results_keys(there)) values[key].first = bare(value);
  for (const auto& [key, value] : numerics::results_keys(now)) values[key].second = bare(value);
  std::vector<std::string> keys;
  const auto shown = [](const std::string& s) { return s.empty() ? "unset" : s; };
  for (const auto& [key, v] : values)
    if (v.first != v.second)
      keys.push_back(difference("recipe." + key, shown(v.first), shown(v.second)));
  return keys;
}

/// "train.steps (200 there, 300 now)" for each key that results depend on.
std::vector<std::string> differing_keys(const std::string& old_path, const RunConfig& now) {
  const ConfigFile old = ConfigFile::read(old_path);
  const ConfigFile fresh = ConfigFile::parse(to_toml(now), old_path);
  const std::string folder = std::filesystem::path(old_path).parent_path().string();
  std::vector<std::string> keys = differing_keys(recipe_there(folder, old), recipe_of(now));
  for (const auto& [key, value] : results_keys(now)) {
    if (key == "train.recipe" || key.starts_with("recipe.")) continue;
    const std::string there = text_of(old.find(key)), here = text_of(fresh.find(key));
    if (there != here) keys.push_back(difference(key, there, here));
  }
  return keys;
}

/// The lines of a configuration without their values.
std::string without_values(const std::string& toml) {
  std::string keys;
  for (std::size_t begin = 0; begin < toml.size();) {
    const std::size_t end = std::min(toml.find('\n', begin), toml.size());
    const std::string line = toml.substr(begin, end - begin);
    keys += line.substr(0, line.find(" = ")) + "\n";
    begin = end + 1;
  }
  return keys;
}

/// Whether a recipe is spelt out as a run does it, and not written by a person.
bool is_resolved_recipe(const std::string& path) {
  try {
    return numerics::to_toml(numerics::read_recipe(path)) == read_file(path);
  } catch (const Error&) {
    return false;
  }
}

/// Throws where a file of the user's own would be written over, and unless the folder is empty but
/// for what a start that was cut short leaves.
void check_unused(const std::string& folder, const RunConfig& c) {
  const std::string config = folder + "/" + kConfig, recipe = folder + "/" + kRecipeFile;
  const auto refuse = [&](const std::string& path) {
    throw Error("this file is not a run's own, and a run in its folder would write over it")
        .at(path)
        .hint("use another folder: --set run.folder={}/run", folder);
  };
  const bool begun = exists(config);
  if (begun && without_values(read_file(config)) != without_values(to_toml(c))) refuse(config);
  if (exists(recipe) && !is_resolved_recipe(recipe)) refuse(recipe);
  if (begun) return;
  std::error_code e;
  for (const auto& entry : std::filesystem::directory_iterator(folder, e)) {
    const std::string name = entry.path().filename().string();
    if (name != kLock && name != kCompare && !name.starts_with(kConfig) &&
        !name.starts_with(kRecipeFile))
      throw Error("run.folder = \"{}\" holds other things than a run, such as {}", folder, name)
          .hint("use a new folder: --set run.folder={}/run", folder);
  }
}

/// Whether anything would be lost if the folder were given to another run.
bool has_results(const std::string& folder) {
  std::error_code e;
  const auto log = std::filesystem::file_size(folder + "/log.jsonl", e);
  return (!e && log > 0) || has_checkpoints(folder);
}

}  // namespace

OtherRun other_run(const std::string& config, const RunConfig& c) {
  return OtherRun(
      Error("run.folder = \"{}\" belongs to a run with other settings: {}", c.run.folder,
            fmt::join(differing_keys(config, c), ", "))
          .at(config)
          .hint("use another folder, such as --set run.folder={}-2, or give the settings it has",
                c.run.folder));
}

RunFolder::RunFolder(const RunConfig& c) : path_(c.run.folder) {
  make_folders(path_);
  lock_.emplace(file(kLock), "training in this folder",
                "wait for it, stop it, or use another folder: --set run.folder=…");
  const std::string config = file(kConfig);
  if (exists(file(kManifestName)))
    throw Error("run.folder = \"{}\" is one checkpoint of a run", path_)
        .hint("use another folder: --set run.folder=…");
  if (!exists(config) || !has_results(path_))
    check_unused(path_, c);
  else if (!differing_keys(config, c).empty())
    throw other_run(config, c);
}

void RunFolder::write_settings(const RunConfig& c) const {
  for (const char* name : {kConfig, kRecipeFile, kRunJson}) remove_leftovers(file(name));
  write_atomically(file(kRecipeFile), numerics::to_toml(recipe_of(c)));
  write_atomically(file(kConfig), to_toml(c));
}

void write_run_json(const std::string& path, const RunFacts& f) {
  using Json = nlohmann::ordered_json;
  Json j = Json::object();
  j["lathe_version"] = kVersion;
  j["started"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  j["first_step"] = f.first_step;
  j["results_hash"] = results_hash(f.config);
  j["recipe"] = recipe_of(f.config).name;
  j["kernels"] = f.kernels;
  j["threads"] = f.threads;
  j["parameters"] = f.footprint.parameters;
  j["tokens_per_step"] = f.footprint.tokens_per_step;
  const Work& w = f.footprint.step;
  j["flops_per_step"] = w.product_flops + w.attention_flops;
  j["model_flops_per_step"] = f.footprint.model.product_flops + f.footprint.model.attention_flops;
  j["product_flops"] = w.product_flops;
  j["attention_flops"] = w.attention_flops;
  j["other_flops"] = w.other_flops;
  j["peak_flops"] = f.peak;
  j["peak_about"] =
      "multiply-adds of this recipe's products, operands in registers, all threads, at start";
  j["memory_total"] = f.footprint.total();
  j["memory"] = Json::array();
  for (const Footprint::Part& p : f.footprint.parts) {
    Json names = Json::object();
    for (const auto& [name, bytes] : p.by_name) names[name] = bytes;
    j["memory"].push_back({{"name", p.name}, {"bytes", p.bytes}, {"by_name", names}});
  }
  write_atomically(path, j.dump(2) + "\n");
}

}  // namespace lathe::train
