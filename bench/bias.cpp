// What a recipe's backward pass does to the gradients of a trained model: the error that steps
// average away, and the one that they do not. Prints Markdown.
//
//   bench_bias RUN.toml CHECKPOINT --against RECIPE [--draws 16] [--set SECTION.KEY=VALUE …]
//              RECIPE…
//
// All recipes see the same weights and tokens, those of the checkpoint and of the step behind it.
// The one behind --against says what gradients should be: as the others forward, exact backward.
//
// "one": |g - exact| / |exact| of one gradient, mean over draws of all random bits. "mean": that of
// the mean over all draws. Rounding by chance leaves one over the root of the draws; what is left
// beyond that is bias. Each the median over the matrices of all blocks, and the largest.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "bench/program.h"
#include "lathe/base/config.h"
#include "lathe/base/error.h"
#include "lathe/base/median.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/data/loader.h"
#include "lathe/kernels/kernels.h"
#include "lathe/parallel/params.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"
#include "lathe/train/step.h"

namespace lathe::bench {
namespace {

struct Options {
  std::string run_file, checkpoint, against;
  std::vector<std::string> overrides, recipes;
  i64 draws = 16;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg.starts_with("--") && i + 1 == argc) throw Error("{} needs a value", arg);
    if (arg == "--set")
      o.overrides.emplace_back(argv[++i]);
    else if (arg == "--against")
      o.against = argv[++i];
    else if (arg == "--draws")
      o.draws = std::max<i64>(1, std::atoll(argv[++i]));
    else if (o.run_file.empty())
      o.run_file = arg;
    else if (o.checkpoint.empty())
      o.checkpoint = arg;
    else
      o.recipes.emplace_back(arg);
  }
  if (o.recipes.empty() || o.against.empty())
    throw Error("run file, checkpoint, --against and recipes are needed")
        .hint("the head of bench/bias.cpp shows a call");
  return o;
}

/// One value for each element of each matrix of the blocks.
using Gradients = std::vector<std::vector<double>>;

/// Gradients of the step behind the checkpoint, with random bits of their own.
Gradients gradients(const Options& o, const std::string& recipe, i64 draw) {
  std::vector<std::string> overrides = o.overrides;
  overrides.push_back("train.recipe=" + recipe);
  overrides.push_back(fmt::format("run.seed={}", draw));
  const train::RunConfig c = train::read_run(ConfigFile::read(o.run_file, overrides));
  if (c.optimizer.gradients != "fp32")
    throw Error("gradients are rounded to {}", c.optimizer.gradients)
        .hint("--set optimizer.gradients=fp32");
  const train::Checkpoint checkpoint(o.checkpoint);
  const i64 step = checkpoint.info().step + 1;
  Queue q(train::thread_count(c));
  train::Arenas memory = train::Arenas::backed(train::measure(c));
  const data::Loader loader(c.data.shards, data::Loader::Part::train, c.model.context,
                            c.model.known(), 1);
  train::Trainer t(c, kernels::select(c.run.kernels), q, memory);
  t.init();
  checkpoint.read_weights(t.params());
  t.refresh(step);
  const double scale = t.step(step, &loader).loss_scale;

  Gradients all;
  for (const parallel::Param& p : t.params().all()) {
    if (p.spec.block < 0 || !p.multiplied()) continue;
    std::vector<double>& g = all.emplace_back();
    for (i64 r = 0; r < p.grad.rows; ++r)
      for (i64 i = 0; i < p.grad.cols; ++i) g.push_back(p.grad.row<float>(r)[i] / scale);
  }
  return all;
}

/// |factor g - exact| / |exact|
double error(const std::vector<double>& g, double factor, const std::vector<double>& exact) {
  double off = 0, whole = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const double d = factor * g[i] - exact[i];
    off += d * d;
    whole += exact[i] * exact[i];
  }
  return std::sqrt(off / whole);
}

void run_recipe(const Options& o, const std::string& recipe, const Gradients& exact) {
  const auto share = 1 / static_cast<double>(o.draws);
  Gradients sum;
  for (const std::vector<double>& m : exact) sum.emplace_back(m.size(), 0.0);
  std::vector<double> one(exact.size()), mean;
  for (i64 draw = 1; draw <= o.draws; ++draw) {
    const Gradients g = gradients(o, recipe, draw);
    for (std::size_t m = 0; m < g.size(); ++m) {
      one[m] += share * error(g[m], 1, exact[m]);
      for (std::size_t i = 0; i < g[m].size(); ++i) sum[m][i] += g[m][i];
    }
  }
  for (std::size_t m = 0; m < sum.size(); ++m) mean.push_back(error(sum[m], share, exact[m]));
  fmt::print("| {} | {:.1f} % | {:.1f} % | {:.1f} % | {:.1f} % |\n", recipe, 100 * median(one),
             100 * *std::max_element(one.begin(), one.end()), 100 * median(mean),
             100 * *std::max_element(mean.begin(), mean.end()));
  std::fflush(stdout);
}

void run(const Options& o) {
  const Gradients exact = gradients(o, o.against, 1);
  fmt::print(
      "| recipe | one, median | one, largest | mean of {0}, median | mean of {0}, largest |\n"
      "|---|---|---|---|---|\n",
      o.draws);
  for (const std::string& recipe : o.recipes) run_recipe(o, recipe, exact);
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  return lathe::bench::program([&] { lathe::bench::run(lathe::bench::parse(argc, argv)); });
}
