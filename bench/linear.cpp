// The three products of a linear layer in a recipe, with everything that the recipe adds: weights
// encoded once, x and dy encoded for each product that reads them, packing. At the shapes of one
// block of GPT-2 124M and 1.5B, in turns with BF16. Prints Markdown.
//
//   bench_linear [--rows 8192] [--threads N] [--rounds N] [--kernels NAME] [--processor-time]
//                [--smoke] [RECIPE…]
//
// "ms": medians of the recipe's time. "x BF16": median over rounds of its time over BF16's beside
// it. The last line of a model is the sum over its four matrices.

#include "lathe/model/linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/program.h"
#include "bench/timing.h"
#include "lathe/base/arena.h"
#include "lathe/base/cpu.h"
#include "lathe/base/error.h"
#include "lathe/base/median.h"
#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/encode.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/model/ctx.h"
#include "lathe/numerics/recipe.h"
#include "lathe/parallel/params.h"

namespace lathe::bench {
namespace {

struct Shape {
  const char* layer;
  i64 out, in;
};
struct Model {
  const char* name;
  std::vector<Shape> shapes;
};

std::vector<Model> models() {
  std::vector<Model> all;
  for (const auto& [name, width] : {std::pair{"GPT-2 124M", 768}, {"GPT-2 1.5B", 1600}})
    all.push_back({name,
                   {{"attn.qkv", 3 * width, width},
                    {"attn.out", width, width},
                    {"mlp.up", 4 * width, width},
                    {"mlp.down", width, 4 * width}}});
  return all;
}

struct Options {
  int threads = usable_cores(), rounds = 5;
  std::string kernels = "auto";
  Time time = Time::passed;
  i64 rows = 8192;
  bool smoke = false;
  std::vector<std::string> recipes;
};

/// Activations and gradients: normal, in the type that the recipe has between products.
void fill(const Tensor& t, u64 seed) {
  const Rng rng{seed};
  float draws[4096];
  for (u64 i = 0; i < 4096; ++i) draws[i] = static_cast<float>(rng.normal(i));
  for (i64 r = 0; r < t.rows; ++r)
    for (i64 c = 0; c < t.cols; ++c) {
      const float x = draws[(r * 131 + c) % 4096];
      if (t.type == DType::bf16)
        t.row<bf16>(r)[c] = kernels::to_bf16(x);
      else
        t.row<float>(r)[c] = x;
    }
}

struct Memory {
  Arena weights, grads, rows, temp;
};

/// One layer on its memory: what it reads, what it writes.
class Layer {
 public:
  /// A second block, so that overrides of the last blocks leave the first alone.
  Layer(const Shape& s, const numerics::Recipe& r, const kernels::Kernels& k, Queue& q, i64 rows,
        Memory& m)
      : recipe_(r),
        k_(k),
        q_(q),
        m_(m),
        params_({{.name = kName, .rows = s.out, .cols = s.in, .init_std = 0.02, .block = 0},
                 {.name = "layers.1.bench", .rows = 128, .cols = 128, .block = 1}},
                recipe_, m.weights, &m.grads),
        linear_(model::Linear::of(params_, kName)),
        x_(m.rows.take("x", r.activation, rows, s.in)),
        dx_(m.rows.take("dx", r.activation, rows, s.in)),
        y_(m.rows.take("y", r.activation, rows, s.out)),
        dy_(m.rows.take("dy", r.activation, rows, s.out)) {}

  void fill_in() {
    params_.init(1);
    params_.reset_histories(q_, k_);
    params_.zero_grads(q_, k_);
    fill(x_, 2);
    fill(dy_, 3);
  }

  /// What a step does with the layer, but for the optimizer.
  void step() {
    const kernels::Draws at{.seed = 1, .stream = ++step_};
    model::Ctx c{k_, recipe_, q_, m_.rows, m_.temp, at, true};
    params_.refresh_work(q_, k_, at);
    linear_.forward(c, y_, x_);
    linear_.backward(c, dx_, dy_, x_);
    params_.update_histories(q_, k_, recipe_.delayed);
  }

 private:
  static constexpr const char* kName = "layers.0.bench";
  const numerics::Recipe& recipe_;
  const kernels::Kernels& k_;
  Queue& q_;
  Memory& m_;
  parallel::ParamSet params_;
  model::Linear linear_;
  Tensor x_, dx_, y_, dy_;
  u64 step_ = 0;
};

/// A layer in memory of just the size that a dry step asks for.
class Backed {
 public:
  Backed(const Shape& s, const std::string& recipe, const kernels::Kernels& k, Queue& q, i64 rows)
      : recipe_(numerics::recipe(recipe)),
        memory_(measure(s, recipe_, rows)),
        layer_(s, recipe_, k, q, rows, memory_) {
    layer_.fill_in();
  }
  Layer* operator->() { return &layer_; }

 private:
  static Memory measure(const Shape& s, const numerics::Recipe& r, i64 rows) {
    Memory m{Arena("weights"), Arena("gradients"), Arena("activations"), Arena("scratch")};
    Queue none(0);
    Layer(s, r, kernels::dry(), none, rows, m).step();
    return {Arena("weights", m.weights.peak()), Arena("gradients", m.grads.peak()),
            Arena("activations", m.rows.peak()), Arena("scratch", m.temp.peak())};
  }

  numerics::Recipe recipe_;
  Memory memory_;
  Layer layer_;
};

/// Seconds of the recipe and of BF16, round by round.
struct Pair {
  std::vector<double> ours, plain;

  void add(const Pair& p) {
    ours.resize(p.ours.size());
    plain.resize(p.plain.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      ours[i] += p.ours[i];
      plain[i] += p.plain[i];
    }
  }
  std::string columns() const {
    std::vector<double> ratio;
    for (std::size_t i = 0; i < ours.size(); ++i) ratio.push_back(ours[i] / plain[i]);
    return fmt::format("{:.1f} | {:.3f} |", 1e3 * median(ours), median(ratio));
  }
};

Pair take_turns(Backed& ours, Backed& plain, const Options& o) {
  ours->step();
  plain->step();
  Pair p;
  for (int r = 0; r < o.rounds; ++r) {
    const double first = seconds([&] { (r % 2 ? ours : plain)->step(); }, o.time);
    const double second = seconds([&] { (r % 2 ? plain : ours)->step(); }, o.time);
    p.ours.push_back(r % 2 ? first : second);
    p.plain.push_back(r % 2 ? second : first);
  }
  return p;
}

void run_model(const Model& m, const kernels::Kernels& k, Queue& q, const Options& o) {
  std::vector<Pair> sums(o.recipes.size());
  for (const Shape& s : m.shapes) {
    Backed plain(s, "bf16", k, q, o.rows);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      Backed ours(s, o.recipes[i], k, q, o.rows);
      const Pair p = take_turns(ours, plain, o);
      sums[i].add(p);
      fmt::print("| {} {} {} x {} | {} | {}\n", m.name, s.layer, s.out, s.in, o.recipes[i],
                 p.columns());
      std::fflush(stdout);
    }
  }
  for (std::size_t i = 0; i < sums.size(); ++i)
    fmt::print("| {}, all four | {} | {}\n", m.name, o.recipes[i], sums[i].columns());
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const auto number = [&] { return ++i < argc ? std::max(1, std::atoi(argv[i])) : 1; };
    if (arg == "--threads")
      o.threads = number();
    else if (arg == "--rounds")
      o.rounds = number();
    else if (arg == "--rows")
      o.rows = number();
    else if (arg == "--kernels" && i + 1 < argc)
      o.kernels = argv[++i];
    else if (arg == "--processor-time")
      o.time = Time::processor;
    else if (arg == "--smoke")
      o.smoke = true, o.rows = 64, o.rounds = 1;
    else if (arg.starts_with("-"))
      throw Error("unknown argument {}", arg).hint("the head of bench/linear.cpp lists them");
    else
      o.recipes.emplace_back(arg);
  }
  if (o.time == Time::processor && o.threads != 1)
    throw Error("--processor-time counts one thread").hint("--threads 1 --processor-time");
  if (o.recipes.empty())
    o.recipes = {"fp8-hybrid-current",
                 "fp8-hybrid-delayed",
                 "fp8-e4m3-tensor",
                 "hif8",
                 "mxfp8",
                 "fp8-deepseek",
                 "nvfp4",
                 "mxfp4"};
  return o;
}

void run(const Options& o) {
  const kernels::Kernels& table = kernels::select(o.kernels);
  Queue q(o.threads);
  fmt::print("{}, threads {}{}, kernels {}, {} rows\n\n", cpu().model, o.threads,
             o.time == Time::processor ? " (processor time)" : "", kernels::describe(table),
             o.rows);
  fmt::print("| layer | recipe | ms | x BF16 |\n|---|---|---|---|\n");
  for (const Model& m : models()) {
    run_model(m, table, q, o);
    if (o.smoke) break;
  }
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  return lathe::bench::program([&] { lathe::bench::run(lathe::bench::parse(argc, argv)); });
}
