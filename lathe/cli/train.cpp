#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "lathe/cli/command.h"
#include "lathe/kernels/kernels.h"
#include "lathe/plan/machine.h"
#include "lathe/plan/memory.h"
#include "lathe/plan/page.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"
#include "lathe/train/loop.h"

namespace lathe::cli {
namespace {

struct TrainOptions {
  RunFileOptions file;
  bool use_previous = false;
};

void declare(CLI::App& a, TrainOptions& o) {
  declare_run_file(a, o.file);
  a.add_flag("--use-previous", o.use_previous,
             "go on from the checkpoint before the latest, as when that is damaged");
}

void print_end(const train::RunConfig& c, const train::Outcome& end) {
  using How = train::Outcome::How;
  nlohmann::ordered_json j;
  j["event"] = end.how == How::stopped ? "stopped" : "finished";
  j["step"] = end.step;
  j["run"] = c.run.folder;
  j["checkpoint"] = end.checkpoint;
  fmt::print("{}\n", j.dump());
}

int run(const TrainOptions& o) {
  if (o.file.keys) {
    print_keys(o.file.json);
    return 0;
  }
  const train::RunConfig c = read_run_file(o.file);
  std::FILE* people = o.file.json ? stderr : stdout;
  const train::Footprint need = train::measure(c);
  const plan::Memory have = plan::memory();
  fmt::print(people, "{}\n{}\n", train::to_toml(c), plan::memory_table(need, have));
  std::fflush(people);
  kernels::select(c.run.kernels);
  plan::check_memory(c, need, have);

  const train::Outcome end = train::train(c, need,
                                          {.use_previous = o.use_previous,
                                           .people = people,
                                           .records = o.file.json ? stdout : nullptr});
  if (o.file.json) print_end(c, end);
  if (end.how == train::Outcome::How::was_finished)
    fmt::print(people,
               "this run is finished: {} of {} steps are done\n  {}\n"
               "  hint: raise train.steps in a new folder (--set run.folder=…) to train longer\n",
               end.step, c.train.steps, end.checkpoint);
  if (end.how == train::Outcome::How::finished)
    fmt::print(people, "next: lathe sample {0}, lathe report {0}\n", c.run.folder);
  return 0;
}

}  // namespace

void add_train(Commands& c) {
  c.add<TrainOptions>(
      "train", "train the model that a run file describes, or go on where it stopped",
      "lathe train run.toml\n"
      "lathe train run.toml --set train.steps=500 --set run.folder=runs/longer\n"
      "lathe train --keys\n"
      "\nCtrl-C finishes the step and writes a checkpoint; the same command goes on from there.\n"
      "docs/configuration.md lists every key of a run file with its meaning.\n",
      declare, run);
}

}  // namespace lathe::cli
