// The same bits, whatever the shape of the run: threads, tables, micro-batches, recompute.
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/data/loader.h"
#include "lathe/kernels/kernels.h"
#include "lathe/parallel/params.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"
#include "lathe/train/step.h"
#include "tests/train/tiny_run.h"

namespace lathe::train {
namespace {

struct Trace {
  std::vector<double> losses, norms;
  double held_out = 0;
  std::string weights;

  bool operator==(const Trace&) const = default;
};

Trace trace(const std::vector<std::string>& more, i64 steps) {
  const RunConfig c = tiny_run("unused", more);
  Queue q(thread_count(c));
  Arenas memory = Arenas::backed(measure(c));
  const data::Loader loader(c.data.shards, data::Loader::Part::train, c.model.context,
                            c.model.known(), 1);
  Trainer t(c, kernels::select(c.run.kernels), q, memory);
  t.init();
  Trace out;
  for (i64 n = 1; n <= steps; ++n) {
    const StepResult s = t.step(n, &loader);
    out.losses.push_back(s.loss.mean());
    out.norms.push_back(s.grad_norm);
  }
  out.held_out = t.evaluate(&loader, 5).mean();
  for (const parallel::Param& p : t.params().all())
    out.weights.append(static_cast<const char*>(p.master.data),
                       static_cast<std::size_t>(p.master.bytes()));
  return out;
}

struct Family {
  const char* name;
  std::vector<std::string> keys;
  i64 steps;
};

class Bits : public testing::TestWithParam<Family> {
 protected:
  static Trace with(const std::string& key) {
    std::vector<std::string> keys = GetParam().keys;
    keys.push_back(key);
    return trace(keys, GetParam().steps);
  }
  /// One thread, the best table, micro-batches of 4, nothing recomputed.
  static const Trace& plain() {
    static std::map<std::string, Trace> known;
    const auto& [name, keys, steps] = GetParam();
    if (!known.contains(name)) known[name] = trace(keys, steps);
    return known[name];
  }
};

TEST_P(Bits, DoNotDependOnThreads) {
  for (const char* n : {"2", "4"}) EXPECT_EQ(with(std::string("run.threads=") + n), plain()) << n;
}

TEST_P(Bits, DoNotDependOnTheKernelTable) {
  int others = 0;
  for (const kernels::Candidate& k : kernels::candidates()) {
    if (!k.why_not.empty()) {
      std::printf("%s is not compared: %s\n", std::string(k.table->name).c_str(),
                  k.why_not.c_str());
      continue;
    }
    ++others;
    EXPECT_EQ(with("run.kernels=" + std::string(k.table->name)), plain()) << k.table->name;
  }
  EXPECT_GE(others, 1);
}

TEST_P(Bits, DoNotDependOnTheMicroBatch) {
  for (const char* n : {"1", "2", "8"})
    EXPECT_EQ(with(std::string("train.micro_batch=") + n), plain()) << n;
}

TEST_P(Bits, DoNotDependOnRecompute) {
  for (const char* r : {"attention", "block"})
    EXPECT_EQ(with(std::string("train.recompute=") + r), plain()) << r;
}

// Sums of gradients are rounded to BF16 after every micro-batch, and so it is part of the result.
TEST(Bf16Gradients, DependOnTheMicroBatchAndOnNothingElse) {
  const auto with = [](const char* key) {
    return trace({"optimizer.gradients=bf16", "optimizer.moments=bf16", key}, 3);
  };
  const Trace plain = with("run.threads=1");
  for (const char* key : {"run.threads=3", "run.kernels=ref", "run.kernels=avx2",
                          "train.recompute=attention", "train.recompute=block"})
    EXPECT_EQ(with(key), plain) << key;
  EXPECT_NE(with("train.micro_batch=2"), plain);
}

INSTANTIATE_TEST_SUITE_P(
    Families, Bits,
    testing::Values(
        Family{"llama_bf16", {}, 50}, Family{"llama_fp32", {"train.recipe=fp32"}, 8},
        Family{"gpt2_bf16", {"model.family=gpt2", "model.kv_heads=0"}, 8},
        Family{"llama_bf16_states", {"optimizer.moments=bf16", "optimizer.weights=bf16"}, 4},
        Family{
            "llama_8bit_states", {"model.width=64", "model.layers=1", "optimizer.moments=8bit"}, 4},
        Family{"gpt2_fp8_states",
               {"model.family=gpt2", "model.kv_heads=0", "optimizer.moments=fp8",
                "optimizer.weights=bf16"},
               4}),
    [](const auto& i) { return std::string(i.param.name); });

}  // namespace
}  // namespace lathe::train
