#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "lathe/base/config_visit.h"
#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/cli/command.h"
#include "lathe/cli/precision.h"
#include "lathe/kernels/kernels.h"
#include "lathe/plan/memory.h"
#include "lathe/report/compare.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"
#include "lathe/train/loop.h"
#include "lathe/train/run_folder.h"
#include "lathe/train/step.h"

namespace lathe::cli {

namespace {

constexpr const char* kBaseline = "bf16";

struct CompareOptions {
  RunFileOptions file;
  std::string recipes;
  i64 steps = 0, noise_seeds = 2;
};

void declare(CLI::App& a, CompareOptions& o) {
  a.add_option("run_file", o.file.path, "run file (TOML)")->type_name("RUN.toml");
  a.add_option("--recipes", o.recipes,
               "recipes to train, with commas between them; bf16, which the others are compared "
               "with, is added when it is not among them")
      ->type_name("NAME,NAME");
  a.add_option("--steps", o.steps, "train so many steps, whatever train.steps says")
      ->check(CLI::Range(i64{1}, std::numeric_limits<i64>::max()).description(""))
      ->type_name("N");
  a.add_option("--noise-seeds", o.noise_seeds,
               "runs of bf16, each with its own run.seed; the noise band is how far they lie apart")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  a.add_option("--set", o.file.overrides,
               "override a key of the run file, as in --set train.steps=10; may be repeated")
      ->type_name("SECTION.KEY=VALUE");
  a.add_flag("--json", o.file.json, "print the result as one JSON object, for programs");
}

/// Of the folder of a recipe's run: its name, or that of the file that holds it.
std::string folder_name(std::string recipe) {
  recipe.erase(0, recipe.find_last_of('/') + 1);
  if (recipe.ends_with(".toml")) recipe.resize(recipe.size() - 5);
  return recipe;
}

/// One of the runs to compare.
struct Planned {
  std::string name;  // of the recipe, with the seed where it is not the run file's
  train::RunConfig config;
  train::Footprint need;
  bool seed = false;  // of the noise band only
};

Planned plan_run(const CompareOptions& o, const std::string& recipe, const std::string& name,
                 const std::string& folder, i64 seed) {
  RunFileOptions file = o.file;
  file.overrides.push_back("train.recipe=" + toml_value(recipe));
  file.overrides.push_back("run.folder=" + toml_value(folder + "/" + name));
  file.overrides.push_back("run.seed=" + toml_value(seed));
  if (o.steps > 0) file.overrides.push_back("train.steps=" + toml_value(o.steps));
  try {
    Planned p{name, read_run_file(file), {}, false};
    if (name == folder_name(recipe)) p.name = p.config.recipe.name;
    // Enough of what each recipe does to each operand for the page; no result depends on it.
    const bool exact = p.config.recipe.master == DType::f64;
    if (p.config.train.fidelity_every == 0 && !exact)
      p.config.train.fidelity_every = std::max<i64>(1, p.config.train.steps / 20);
    kernels::select(p.config.run.kernels);
    p.need = train::measure(p.config);
    plan::check_memory(p.config, p.need);
    return p;
  } catch (Error& e) {
    // The place of an override is the same for all recipes: say which of them it was.
    if (e.where().starts_with("--set train.recipe=")) e.at("--recipes " + recipe);
    throw;
  }
}

std::string results_folder(const std::string& run_folder) { return run_folder + "/compare"; }

/// All runs, the baseline first, each checked as far as that goes without training.
std::vector<Planned> plan_runs(const CompareOptions& o, std::string& run_folder) {
  std::vector<std::string> recipes = recipe_names(o.recipes);
  std::erase(recipes, kBaseline);
  recipes.insert(recipes.begin(), kBaseline);
  RunFileOptions plain = o.file;
  plain.overrides.push_back("train.recipe=" + toml_value(std::string(kBaseline)));
  if (o.steps > 0) plain.overrides.push_back("train.steps=" + toml_value(o.steps));
  const train::RunConfig c = read_run_file(plain);
  run_folder = c.run.folder;
  const std::string folder = results_folder(run_folder);
  std::vector<Planned> runs;
  // Folders, and the recipes they are of.
  std::map<std::string, std::string> named{{"index.html", "the page"},
                                           {"compare.json", "its data"}};
  for (const std::string& r : recipes) {
    const auto [other, is_new] = named.emplace(folder_name(r), r);
    if (!is_new)
      throw Error("--recipes: {} and {} would both be in {}/{}", other->second, r, folder,
                  other->first)
          .hint("give the file of a recipe another name");
    runs.push_back(plan_run(o, r, folder_name(r), folder, c.run.seed));
  }
  for (i64 n = 1; n < o.noise_seeds; ++n) {
    const bool room = c.run.seed <= std::numeric_limits<i64>::max() - n;
    const i64 seed = room ? c.run.seed + n : c.run.seed - n;
    const std::string name = fmt::format("{}-seed-{}", kBaseline, seed);
    if (named.contains(name))
      throw Error("--recipes: {} would be in the folder of another seed's run", named[name])
          .hint("give the file of the recipe another name");
    runs.push_back(plan_run(o, kBaseline, name, folder, seed));
    runs.back().seed = true;
  }
  // Folders that cannot be written, or that belong to runs with other settings, before hours are
  // spent on those in front of them.
  for (const Planned& p : runs) try {
      const train::RunFolder check(p.config);
    } catch (train::OtherRun& e) {
      e.hint(
          "compare in another folder, such as --set run.folder={}-2, or give the settings it has",
          run_folder);
      throw;
    }
  return runs;
}

std::string divergence_file(const train::RunConfig& c) { return c.run.folder + "/diverged.json"; }

/// The step at which this very run diverged before; 0 when it did not.
i64 diverged_before(const train::RunConfig& c) {
  if (!exists(divergence_file(c))) return 0;
  const auto j = nlohmann::json::parse(read_file(divergence_file(c)), nullptr, false);
  if (!j.is_object() || j.value("results_hash", "") != train::results_hash(c)) return 0;
  return j.value("step", i64{0});
}

void note_divergence(const train::RunConfig& c, const train::Diverged& e) {
  nlohmann::ordered_json j;
  j["step"] = e.step();
  j["why"] = e.what();
  j["results_hash"] = train::results_hash(c);
  write_atomically(divergence_file(c), j.dump(2) + "\n");
}

/// Trains one run to its end, or notes that it diverged. False: a signal asked to stop.
bool train_one(const Planned& p, std::FILE* people) {
  if (const i64 step = diverged_before(p.config); step > 0) {
    fmt::print(people, "diverged at step {} before; remove {} to try again\n", step,
               p.config.run.folder);
    return true;
  }
  // Whatever an earlier run in this folder noted was not about this one.
  std::error_code ignored;
  std::filesystem::remove(divergence_file(p.config), ignored);
  try {
    const train::Outcome end = train::train(
        p.config, p.need, {.use_previous = false, .people = people, .records = nullptr});
    if (end.how == train::Outcome::How::was_finished)
      fmt::print(people, "finished before: {} steps\n", end.step);
    return !end.signalled;
  } catch (const train::Diverged& e) {
    note_divergence(p.config, e);
    fmt::print(people, "diverged: {}\n", e.what());
    return true;
  }
}

report::Comparison write_results(const std::vector<Planned>& runs, const std::string& run_folder) {
  report::CompareInput in{run_folder, kBaseline, {}, {}};
  for (const Planned& p : runs) {
    if (p.seed)
      in.seeds.push_back(p.config.run.folder);
    else
      in.runs.emplace_back(p.name, p.config.run.folder);
  }
  report::Comparison c = report::compare(in);
  const std::string folder = results_folder(run_folder);
  write_atomically(folder + "/compare.json", report::compare_json(c) + "\n");
  write_atomically(folder + "/index.html", report::compare_page(c));
  return c;
}

int run(const CompareOptions& o) {
  std::string run_folder;
  const std::vector<Planned> runs = plan_runs(o, run_folder);
  std::FILE* people = o.file.json ? stderr : stdout;
  bool whole = true;
  report::Comparison c;
  for (std::size_t i = 0; i < runs.size() && whole; ++i) {
    fmt::print(people, "\n[{} of {}] {}, in {}\n", i + 1, runs.size(), runs[i].name,
               runs[i].config.run.folder);
    std::fflush(people);
    whole = train_one(runs[i], people);
    c = write_results(runs, run_folder);
  }
  fmt::print(people, "\n{}\n{}/index.html\n", report::compare_table(c), results_folder(run_folder));
  if (!whole) fmt::print(people, "stopped; the same command goes on\n");
  if (o.file.json) fmt::print("{}\n", report::compare_json(c));
  return 0;
}

}  // namespace

void add_precision_compare(Commands& c) {
  c.add<CompareOptions>(
      "precision compare", "train a run in several recipes and say what each costs in loss",
      "lathe precision compare run.toml --recipes bf16,fp32\n"
      "lathe precision compare run.toml --recipes fp32 --steps 1000 --noise-seeds 3\n"
      "\nEvery recipe starts from the same weights and reads the same text. bf16 is trained once "
      "more\nwith another seed: how far those two lie apart is the noise band. Runs lie below\n"
      "compare/ in the run's folder, with the page index.html and compare.json. Ctrl-C stops "
      "after\nthe step; the same command goes on, and trains only what is not finished.\n",
      declare, run);
}

}  // namespace lathe::cli
