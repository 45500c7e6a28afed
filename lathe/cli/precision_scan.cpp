#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/error.h"
#include "lathe/base/log.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/cli/command.h"
#include "lathe/cli/precision.h"
#include "lathe/data/loader.h"
#include "lathe/kernels/kernels.h"
#include "lathe/numerics/policy.h"
#include "lathe/numerics/recipe.h"
#include "lathe/numerics/recipe_file.h"
#include "lathe/parallel/params.h"
#include "lathe/plan/memory.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/config.h"
#include "lathe/train/fidelity.h"
#include "lathe/train/footprint.h"
#include "lathe/train/recipe_fit.h"
#include "lathe/train/step.h"

namespace lathe::cli {
namespace {

struct ScanOptions {
  std::string run;
  MachineOptions machine;
  std::string recipes;
  i64 sequences = 0;
  bool json = false;
};

using train::OperandHealth;
using Json = nlohmann::ordered_json;

/// All that a recipe would do to a trained model.
struct Scanned {
  std::string recipe;
  std::vector<OperandHealth> operands;
};

/// All recipes but those that lose nothing, or those that were named. Blocks and transforms must
/// fit the model: what does not is an error where it was named, and left out where it was not.
std::vector<numerics::Recipe> chosen(const std::vector<std::string>& names, const std::string& run,
                                     train::RunConfig c) {
  std::vector<numerics::Recipe> all;
  for (const std::string& name : names)
    all.push_back(name.ends_with(".toml") ? numerics::read_recipe(name) : numerics::recipe(name));
  if (names.empty())
    for (const numerics::Recipe& r : numerics::recipes())
      if (r.name != "fp32" && r.name != "fp64" && r.adaptive.levels.empty()) all.push_back(r);
  const ConfigFile file = ConfigFile::read(run + "/config.toml");
  std::erase_if(all, [&](const numerics::Recipe& r) {
    c.recipe = r;
    try {
      train::check_fit(file, c);
    } catch (const Error& e) {
      if (!names.empty()) throw;
      note("{} is left out: {}", r.name, e.what());
      return true;
    }
    return false;
  });
  return all;
}

/// The run as it was, but for what only concerns this process.
train::RunConfig config_of(const std::string& run, const ScanOptions& o) {
  std::vector<std::string> changes{"run.folder=" + run, "run.kernels=" + o.machine.kernels,
                                   "run.threads=" + std::to_string(o.machine.threads)};
  train::RunConfig c = train::read_run(ConfigFile::read(run + "/config.toml", changes));
  const i64 asked = o.sequences > 0 ? o.sequences : c.train.global_batch;
  c.train.micro_batch = std::min(c.train.micro_batch, asked);
  if (asked > c.train.global_batch || asked % c.train.micro_batch != 0)
    throw Error("--sequences {}: a step has {} of them, in micro-batches of {}", asked,
                c.train.global_batch, c.train.micro_batch)
        .hint("a multiple of {}, up to {}", c.train.micro_batch, c.train.global_batch);
  return c;
}

std::vector<Scanned> scan(const train::RunConfig& c, i64 sequences, const std::string& folder,
                          const std::vector<numerics::Recipe>& recipes) {
  Queue q(train::thread_count(c));
  const train::Footprint need = train::measure(c);
  plan::check_memory(c, need);
  train::Arenas memory = train::Arenas::backed(need);
  train::Trainer t(c, kernels::select(c.run.kernels), q, memory);
  t.init();
  const train::Checkpoint checkpoint(folder);
  checkpoint.read_weights(t.params());
  checkpoint.read_recipe_state(t.recipe_state());
  t.refresh(checkpoint.info().step + 1);
  const data::Loader loader(c.data.shards, data::Loader::Part::train, c.model.context,
                            c.model.known(), static_cast<u64>(c.run.seed));
  auto healths = t.scan(checkpoint.info().step + 1,
                        sequences > 0 ? sequences : c.train.global_batch, loader, recipes);
  std::vector<Scanned> all;
  for (std::size_t i = 0; i < recipes.size(); ++i)
    all.push_back({recipes[i].name, std::move(healths[i])});
  return all;
}

Json to_json(const std::string& folder, const std::vector<Scanned>& all) {
  const auto number = [](double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); };
  Json j = Json::object();
  j["checkpoint"] = folder;
  j["recipes"] = Json::array();
  for (const Scanned& s : all) {
    Json operands = Json::array();
    for (const OperandHealth& h : s.operands)
      operands.push_back({{"layer", h.layer},
                          {"operand", h.operand},
                          {"sqnr_db", number(h.health.snr_db)},
                          {"underflow", h.health.underflow},
                          {"saturated", h.health.saturated},
                          {"amax", number(h.health.amax)}});
    j["recipes"].push_back({{"recipe", s.recipe}, {"operands", operands}});
  }
  return j;
}

/// Of one operand over all layers: the worst, and what the middle one is like.
struct Column {
  double worst = 0, median = 0, underflow = 0;
  std::string layer;
};

Column column(const Scanned& s, const std::string& operand) {
  std::vector<OperandHealth> of;
  for (const OperandHealth& h : s.operands)
    if (h.operand == operand) of.push_back(h);
  CHECK(!of.empty(), "nothing was measured of {}", operand);
  // What cannot be said is the worst.
  const auto order = [](double x) { return std::isnan(x) ? -INFINITY : x; };
  std::sort(of.begin(), of.end(), [&](const OperandHealth& a, const OperandHealth& b) {
    return order(a.health.snr_db) < order(b.health.snr_db);
  });
  Column c{of.front().health.snr_db, of[of.size() / 2].health.snr_db, 0, of.front().layer};
  for (const OperandHealth& h : of) c.underflow = std::max(c.underflow, h.health.underflow);
  return c;
}

std::string decibels(double x) {
  return std::isnan(x) ? "none" : std::isinf(x) ? "exact" : fmt::format("{:.1f}", x);
}

void print_table(const std::string& folder, const std::vector<Scanned>& all) {
  fmt::print(
      "{}\nsignal to noise in dB of each operand, as each recipe writes it for most layers:\n"
      "median of all layers / the worst layer\n\n{:<20}",
      folder, "recipe");
  for (i64 s = 0; s < parallel::kSlots; ++s)
    fmt::print(" {:>14}", train::name_of(static_cast<parallel::Slot>(s)));
  fmt::print("   underflow  worst layer\n");
  for (const Scanned& s : all) {
    fmt::print("{:<20}", s.recipe);
    Column worst{.worst = 1e300, .median = 0, .underflow = 0, .layer = "-"};
    double underflow = 0;
    for (i64 i = 0; i < parallel::kSlots; ++i) {
      const std::string operand = train::name_of(static_cast<parallel::Slot>(i));
      const Column c = column(s, operand);
      fmt::print(" {:>14}", decibels(c.median) + " / " + decibels(c.worst));
      underflow = std::max(underflow, c.underflow);
      if (c.worst < worst.worst) worst = {c.worst, 0, 0, c.layer + " " + operand};
    }
    fmt::print("   {:>7.1f} %  {}\n", 100 * underflow, worst.layer);
  }
}

void declare(CLI::App& a, ScanOptions& o) {
  a.add_option("run", o.run, "run folder with a checkpoint, or a checkpoint of one")->required();
  a.add_option("--recipes", o.recipes,
               "names, or files (TOML), with commas between; all where none is given");
  a.add_option("--sequences", o.sequences, "of the next step's batch; 0: the whole batch")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  declare_machine(a, o.machine);
  a.add_flag("--json", o.json, "print one JSON object, with every layer");
}

int run(const ScanOptions& o) {
  const std::string folder = train::find_checkpoint(o.run);
  if (folder.empty())
    throw Error("there is no checkpoint")
        .at(o.run)
        .hint("name a run folder that `lathe train` has written a checkpoint to");
  const std::string run = folder == o.run ? folder + "/../.." : o.run;
  const train::RunConfig c = config_of(run, o);
  const std::vector<Scanned> all = scan(
      c, o.sequences, folder,
      chosen(o.recipes.empty() ? std::vector<std::string>{} : recipe_names(o.recipes), run, c));
  if (o.json)
    fmt::print("{}\n", to_json(folder, all).dump(2, ' ', false, Json::error_handler_t::replace));
  else
    print_table(folder, all);
  return 0;
}

}  // namespace

void add_precision_scan(Commands& c) {
  c.add<ScanOptions>(
      "precision scan", "what every recipe would do to a trained model, without training",
      "lathe precision scan runs/tiny\n"
      "lathe precision scan runs/tiny --recipes mxfp8,nvfp4 --sequences 4\n"
      "lathe precision scan runs/tiny --json\n"
      "\nReads weights from the latest checkpoint and takes activations and gradients from the\n"
      "batch of the step that comes after it; nothing is changed.\n",
      declare, run);
}

}  // namespace lathe::cli
