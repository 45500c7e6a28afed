// One whole training step of GPT-2 124M, 8 x 1024 tokens: forward, backward, norm, clipping, AdamW.
//
//   bench_step [--recipe NAME] [--threads N] [--kernels auto] [--batch 8] [--micro-batch 8]
//              [--steps N] [--smoke]
//
// Prints "ready" when the first step is behind it, then for each line "N" on stdin runs N steps and
// prints their seconds, one a line, and "end" with the operations per second that the machine's
// products reach just then: bench/peers/compare.sh alternates it with other programs. With --steps
// it runs that many at once and prints medians and the share of the peak.

#include "lathe/train/step.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/timing.h"
#include "lathe/base/config.h"
#include "lathe/base/error.h"
#include "lathe/base/median.h"
#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/data/loader.h"
#include "lathe/data/shards_index.h"
#include "lathe/data/tokens.h"
#include "lathe/kernels/kernels.h"
#include "lathe/numerics/recipe.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"
#include "lathe/train/peak.h"

namespace lathe {
namespace {

struct Options {
  std::string recipe = "bf16", kernels = "auto", recompute = "none";
  i64 threads = 0, batch = 8, micro_batch = 8, steps = 0;
  bool smoke = false;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--smoke") {
      o.smoke = true;
      continue;
    }
    if (i + 1 == argc) throw Error("{} needs a value", name);
    const std::string value = argv[++i];
    if (name == "--recipe")
      o.recipe = value;
    else if (name == "--kernels")
      o.kernels = value;
    else if (name == "--recompute")
      o.recompute = value;
    else if (name == "--threads")
      o.threads = std::stoll(value);
    else if (name == "--batch")
      o.batch = std::stoll(value);
    else if (name == "--micro-batch")
      o.micro_batch = std::stoll(value);
    else if (name == "--steps")
      o.steps = std::stoll(value);
    else
      throw Error("there is no option {}", name);
  }
  o.micro_batch = std::min(o.micro_batch, o.batch);
  return o;
}

/// Random tokens as `lathe data` would lay them down, in a folder that is removed at the end.
class RandomShards {
 public:
  RandomShards(i64 tokens, i64 vocab)
      : path_(std::filesystem::temp_directory_path() / fmt::format("bench-step-{}", getpid())) {
    std::filesystem::create_directories(path_);
    const data::TokensKind kind{vocab, 0, std::string(32, '0')};
    data::ShardsIndex index;
    index.kind = kind;
    index.tokenizer_file = "none";
    for (auto [name, part] : {std::pair{"train", &index.train}, {"held-out", &index.held_out}}) {
      data::TokensWriter writer(path_.string(), name, kind);
      writer.begin_document();
      const Rng random{1, Draw::shuffle, 0};
      std::vector<i32> ids;
      for (i64 i = 0; i < tokens; ++i)
        ids.push_back(
            1 + static_cast<i32>(random.word(static_cast<u64>(i)) % static_cast<u64>(vocab - 1)));
      writer.add(ids);
      part->files = writer.finish();
      part->tokens = writer.tokens();
      part->documents = 1;
    }
    index.documents = 2;
    data::write_index(path_.string(), index);
  }
  ~RandomShards() { std::filesystem::remove_all(path_); }
  RandomShards(const RandomShards&) = delete;
  RandomShards& operator=(const RandomShards&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

train::RunConfig config_of(const Options& o, const std::string& shards) {
  const std::string model =
      o.smoke ? "layers = 2\nwidth = 64\nheads = 2\ncontext = 64\nvocab = 512\n"
              : "layers = 12\nwidth = 768\nheads = 12\ncontext = 1024\nvocab = 50304\n";
  const std::string text = fmt::format(
      "[run]\nthreads = {}\nkernels = \"{}\"\n[data]\nshards = \"{}\"\n[model]\n"
      "family = \"gpt2\"\n{}[train]\nsteps = 100000\nglobal_batch = {}\nmicro_batch = {}\n"
      "recipe = \"{}\"\nrecompute = \"{}\"\n[optimizer]\nlr = 3e-4\n",
      o.threads, o.kernels, shards, model, o.batch, o.micro_batch, o.recipe, o.recompute);
  return train::read_run(ConfigFile::parse(text, "bench_step"));
}

/// A trainer and the number of its next step.
class Steps {
 public:
  Steps(const train::RunConfig& c, const train::Footprint& footprint)
      : c_(c),
        kernels_(kernels::select(c.run.kernels)),
        queue_(train::thread_count(c)),
        arenas_(train::Arenas::backed(footprint)),
        trainer_(c, kernels_, queue_, arenas_),
        loader_(c.data.shards, data::Loader::Part::train, c.model.context, c.model.vocab, 1) {
    trainer_.init();
  }

  double take_one() {
    return bench::seconds([&] { trainer_.step(next_++, &loader_); });
  }
  double peak() { return train::measure_peak(kernels_, train::recipe_of(c_), queue_); }
  std::string about() const {
    return fmt::format("{}, {}, {} threads", kernels::describe(kernels_), train::recipe_of(c_).name,
                       queue_.threads());
  }

 private:
  train::RunConfig c_;
  const kernels::Kernels& kernels_;
  Queue queue_;
  train::Arenas arenas_;
  train::Trainer trainer_;
  data::Loader loader_;
  i64 next_ = 1;
};

void run_at_once(Steps& steps, const train::Footprint& f, i64 count) {
  std::vector<double> seconds, share;
  const auto work = static_cast<double>(f.step.product_flops + f.step.attention_flops);
  for (i64 i = 0; i < count; ++i) {
    // The machine is shared: its peak is measured around each step.
    const double before = steps.peak();
    seconds.push_back(steps.take_one());
    share.push_back(work / seconds.back() / std::max(before, steps.peak()));
    fmt::print("{:.3f} s, {:.1f} % of the peak beside it\n", seconds.back(), 100 * share.back());
  }
  fmt::print("median {:.3f} s, {:.0f} tokens/s, {:.1f} % of the peak\n", median(seconds),
             static_cast<double>(f.tokens_per_step) / median(seconds), 100 * median(share));
}

int run(const Options& o) {
  const RandomShards shards(o.smoke ? 2000 : 200000, o.smoke ? 500 : 50257);
  const train::RunConfig c = config_of(o, shards.path());
  const train::Footprint f = train::measure(c);
  Steps steps(c, f);
  fmt::print(stderr, "lathe, {}: {:.1f} M parameters, {:.2f} GB, {:.2f} TFLOP a step\n",
             steps.about(), static_cast<double>(f.parameters) / 1e6,
             static_cast<double>(f.total()) / 1e9,
             static_cast<double>(f.step.product_flops + f.step.attention_flops) / 1e12);
  steps.take_one();  // touches all memory
  if (o.steps > 0 || o.smoke) {
    run_at_once(steps, f, std::max<i64>(o.steps, 2));
    return 0;
  }
  fmt::print("ready\n");
  std::fflush(stdout);
  for (i64 count; std::cin >> count;) {
    for (i64 i = 0; i < count; ++i) {
      fmt::print("{:.6f}\n", steps.take_one());
      std::fflush(stdout);
    }
    fmt::print("end {:.3e}\n", steps.peak());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace lathe

int main(int argc, char** argv) {
  try {
    return lathe::run(lathe::parse(argc, argv));
  } catch (const lathe::Error& e) {
    fmt::print(stderr, "{}", e.report());
    return 2;
  }
}
