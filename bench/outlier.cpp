// What one outlier does to a run under delayed and under current scaling: a weight is 2^24 for
// one step, and put back, with all weights and moments, after it. Prints Markdown.
//
//   bench_outlier RUN.toml [--set SECTION.KEY=VALUE …] [--layer NAME] [--step N] [RECIPE…]
//
// "before" and "after": training loss, mean of the steps before the outlier (the last 50) and of
// all after it; "without": after, in the same run without the outlier.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "bench/program.h"
#include "lathe/base/config.h"
#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/train/config.h"
#include "tests/train/planted_outlier.h"

namespace lathe::bench {
namespace {

struct Options {
  std::string run_file, layer = "layers.0.mlp.down";
  std::vector<std::string> overrides, recipes;
  i64 step = 100;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg.starts_with("--") && i + 1 == argc) throw Error("{} needs a value", arg);
    if (arg == "--set")
      o.overrides.emplace_back(argv[++i]);
    else if (arg == "--layer")
      o.layer = argv[++i];
    else if (arg == "--step")
      o.step = std::atoll(argv[++i]);
    else if (o.run_file.empty())
      o.run_file = arg;
    else
      o.recipes.emplace_back(arg);
  }
  if (o.run_file.empty()) throw Error("no run file").hint("bench_outlier configs/quickstart.toml");
  if (o.recipes.empty()) o.recipes = {"fp8-hybrid-delayed", "fp8-hybrid-current"};
  return o;
}

double mean(const std::vector<double>& losses, i64 begin, i64 end) {
  return std::accumulate(losses.begin() + begin, losses.begin() + end, 0.0) /
         static_cast<double>(end - begin);
}

void run(const Options& o) {
  fmt::print("| recipe | before | after | without |\n|---|---|---|---|\n");
  for (const std::string& recipe : o.recipes) {
    std::vector<std::string> overrides = o.overrides;
    overrides.push_back("train.recipe=" + recipe);
    const train::RunConfig c = train::read_run(ConfigFile::read(o.run_file, overrides));
    const i64 steps = c.train.steps;
    if (o.step < 2 || o.step >= steps) throw Error("--step must lie in 2 to {}", steps - 1);
    const std::vector<double> with = train::losses_with(c, {o.step, o.layer, 0x1p24F}),
                              without = train::losses_with(c, {o.step, o.layer, 0});
    fmt::print("| {} | {:.4f} | {:.4f} | {:.4f} |\n", recipe,
               mean(with, std::max<i64>(0, o.step - 51), o.step - 1), mean(with, o.step, steps),
               mean(without, o.step, steps));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  return lathe::bench::program([&] { lathe::bench::run(lathe::bench::parse(argc, argv)); });
}
