#include "lathe/train/step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/error.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/data/loader.h"
#include "lathe/kernels/kernels.h"
#include "lathe/model/ctx.h"
#include "lathe/parallel/params.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"
#include "tests/train/tiny_run.h"

namespace lathe::train {
namespace {

data::Loader training_loader(const RunConfig& c) {
  return data::Loader(c.data.shards, data::Loader::Part::train, c.model.context, c.model.known(),
                      1);
}

struct Live {
  RunConfig c;
  Footprint need;
  Queue q;
  Arenas memory;
  data::Loader loader;
  Trainer trainer;

  explicit Live(const std::vector<std::string>& more)
      : c(tiny_run("unused", more)),
        need(measure(c)),
        q(thread_count(c)),
        memory(Arenas::backed(need)),
        loader(training_loader(c)),
        trainer(c, kernels::select(c.run.kernels), q, memory) {
    trainer.init();
  }
};

class EachFootprint : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(EachFootprint, IsWhatARealStepUsesByteForByte) {
  Live run(GetParam());
  run.trainer.step(1, &run.loader);
  run.trainer.evaluate(&run.loader, run.c.train.eval_sequences);
  run.trainer.step(2, &run.loader);
  for (const Arena* a : run.memory.all())
    EXPECT_EQ(a->peak(), run.need.part(a->name())) << a->name();
  for (const Arena* a : run.memory.all()) EXPECT_GT(a->peak(), 0) << a->name();
}

INSTANTIATE_TEST_SUITE_P(
    Runs, EachFootprint,
    testing::Values(std::vector<std::string>{},
                    std::vector<std::string>{"train.recompute=attention"},
                    std::vector<std::string>{"train.recompute=block"},
                    std::vector<std::string>{"train.recipe=fp32", "train.micro_batch=1"},
                    std::vector<std::string>{"train.recipe=fp64", "model.tied=1"},
                    std::vector<std::string>{"model.family=gpt2", "model.kv_heads=0"},
                    std::vector<std::string>{"model.family=gpt2", "model.kv_heads=0",
                                             "train.recompute=attention", "train.recipe=fp32"},
                    std::vector<std::string>{"model.family=gpt2", "model.kv_heads=0",
                                             "train.recompute=block", "train.micro_batch=8"},
                    std::vector<std::string>{"optimizer.moments=bf16", "optimizer.weights=bf16"},
                    std::vector<std::string>{"model.width=64", "optimizer.moments=8bit"},
                    std::vector<std::string>{"optimizer.moments=fp8", "optimizer.gradients=bf16"},
                    std::vector<std::string>{"model.tied=1", "optimizer.weights=bf16",
                                             "optimizer.gradients=bf16", "train.recipe=fp32"},
                    std::vector<std::string>{"model.qk_norm=true", "model.qkv_bias=true",
                                             "model.window=7", "model.head_dim=16"}));

TEST(Footprint, CountsWorkAndParameters) {
  const RunConfig c = tiny_run("unused");
  const Footprint f = measure(c);
  const i64 tokens = c.train.global_batch * model::padded_time(c.model.context);
  // qkv, out, gate and up, down of each layer, and the head.
  const i64 per_layer = 64 * 32 + 32 * 32 + 3 * 48 * 32;
  const i64 weights = 2 * per_layer + c.model.vocab * 32;
  EXPECT_EQ(f.step.product_flops, 6 * weights * tokens);
  EXPECT_GT(f.step.attention_flops, 0);
  // The embedding, and two gains a layer and one at the end.
  EXPECT_EQ(f.parameters, weights + c.model.vocab * 32 + 5 * 32);
  EXPECT_EQ(f.tokens_per_step, 8 * 40);
  i64 sum = 0;
  for (const auto& p : f.parts) sum += p.bytes;
  EXPECT_EQ(sum, f.total());
  EXPECT_EQ(f.part("nothing"), 0);
}

TEST(Footprint, TellsTheModelsWorkFromWhatIsRecomputed) {
  const Footprint kept = measure(tiny_run("unused"));
  // Sequences of 40 tokens are filled up to 64.
  EXPECT_EQ(kept.model.product_flops, kept.step.product_flops * 40 / 64);
  EXPECT_EQ(kept.model.attention_flops, kept.step.attention_flops * (40 * 41) / (64 * 65));
  for (const char* how : {"train.recompute=attention", "train.recompute=block"}) {
    const Footprint again = measure(tiny_run("unused", {how}));
    EXPECT_EQ(again.model.product_flops, kept.model.product_flops) << how;
    EXPECT_EQ(again.model.attention_flops, kept.model.attention_flops) << how;
    EXPECT_GT(again.step.product_flops, kept.step.product_flops) << how;
  }
}

TEST(Step, LearnsTheText) {
  Live run({"train.steps=40"});
  const double first = run.trainer.step(1, &run.loader).loss.mean();
  EXPECT_NEAR(first, std::log(static_cast<double>(run.c.model.known())), 0.5);
  double last = 0;
  for (i64 n = 2; n <= 40; ++n) last = run.trainer.step(n, &run.loader).loss.mean();
  EXPECT_LT(last, 0.75 * first);
}

TEST(Step, ClipsToTheGlobalNorm) {
  // One step of AdamW does not see a common factor, but its moments do.
  Live free({"optimizer.clip=0"}), clipped({"optimizer.clip=0.125"});
  const StepResult a = free.trainer.step(1, &free.loader);
  const StepResult b = clipped.trainer.step(1, &clipped.loader);
  EXPECT_EQ(a.grad_norm, b.grad_norm);
  ASSERT_GT(a.grad_norm, 0.125);
  double squares = 0;
  for (const auto& [name, t] : clipped.trainer.optimizer().state())
    if (name.ends_with(".m"))
      for (i64 i = 0; i < t.size(); ++i) {
        const double g = static_cast<double>(t.row<float>(0)[i]) / 0.1;  // m = (1 - beta1) g
        squares += g * g;
      }
  // beta1 in f32 and each moment are rounded to 24 bits: relative 2^-20 covers both.
  EXPECT_NEAR(std::sqrt(squares), 0.125, 0.125 * 0x1p-20);
}

TEST(Step, StopsAtAWeightThatIsNotFinite) {
  Live run({});
  parallel::Param& p = run.trainer.params().at("layers.1.mlp.down");
  p.master.row<float>(0)[3] = std::nanf("");
  run.trainer.refresh(7);
  const float other = run.trainer.params()[0].master.row<float>(0)[0];
  try {
    run.trainer.step(7, &run.loader);
    FAIL() << "no Error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("step 7"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("layers.1.mlp.down"), std::string::npos);
    EXPECT_NE(e.hint(), "");
  }
  EXPECT_EQ(run.trainer.params()[0].master.row<float>(0)[0], other);
}

TEST(Step, StopsAtAGradientThatIsNotFinite) {
  // Finite weights whose products leave FP32.
  Live run({"train.recipe=fp32"});
  for (parallel::Param& p : run.trainer.params().all())
    if (p.spec.name == "head")
      for (i64 i = 0; i < p.spec.size(); ++i) p.master.row<float>(0)[i] = i % 2 ? 3e38f : -3e38f;
  run.trainer.refresh(2);
  try {
    run.trainer.step(2, &run.loader);
    FAIL() << "no Error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("step 2"), std::string::npos) << e.what();
    EXPECT_NE(e.hint().find("optimizer.lr"), std::string::npos);
  }
}

}  // namespace
}  // namespace lathe::train
