#pragma once
// A small model with its memory, and texts for it.

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/loss.h"
#include "lathe/model/config.h"
#include "lathe/model/ctx.h"
#include "lathe/model/transformer.h"
#include "lathe/numerics/recipe.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

/// Both families with every option on, sizes that are multiples of nothing, a padded vocabulary.
inline ModelConfig small_llama(bool tied = false) {
  ModelConfig m;
  m.family = "llama";
  m.vocab = 37;
  m.tokens = 33;
  m.layers = 2;
  m.width = 20;
  m.heads = 4;
  m.kv_heads = 2;
  m.head_dim = 6;
  m.hidden = 28;
  m.context = 40;
  m.window = 9;
  m.tied = tied ? 1 : 0;
  m.qkv_bias = true;
  m.qk_norm = true;
  m.init_std = 0.3;
  return m;
}

inline ModelConfig small_gpt2(bool tied = true) {
  ModelConfig m;
  m.family = "gpt2";
  m.vocab = 37;
  m.tokens = 33;
  m.layers = 2;
  m.width = 20;
  m.heads = 4;
  m.kv_heads = 4;
  m.head_dim = 5;
  m.hidden = 28;
  m.context = 40;
  m.tied = tied ? 1 : 0;
  m.init_std = 0.3;
  return m;
}

/// Sequences of several documents, some tokens without a target, padded as the loader pads.
struct Text {
  std::vector<i32> ids, targets, doc_start;
  i64 batch = 0, time = 0;

  Text(const ModelConfig& m, i64 sequences, u64 seed, i64 padded = 0)
      : batch(sequences), time(padded > 0 ? padded : padded_time(m.context)) {
    const Rng rng{seed, Draw::shuffle};
    for (i64 b = 0; b < batch; ++b) {
      i32 start = 0;
      for (i64 t = 0; t < time; ++t) {
        // Bits depend on the place alone, not on the padding.
        const auto bits = rng.bits(static_cast<u64>(b * 4096 + t));
        const bool inside = t < m.context;
        if (!inside || bits[2] % 13 == 0) start = static_cast<i32>(t);
        ids.push_back(inside ? static_cast<i32>(bits[0] % static_cast<u64>(m.tokens)) : 0);
        targets.push_back(inside && bits[3] % 7 != 0
                              ? static_cast<i32>(bits[1] % static_cast<u64>(m.tokens))
                              : kernels::kNoTarget);
        doc_start.push_back(start);
      }
    }
  }
  Batch rows(i64 first, i64 count) const {
    const i64 at = first * time;
    return {ids.data() + at, targets.data() + at, doc_start.data() + at, count, time};
  }
  Batch all() const { return rows(0, batch); }
};

struct Memory {
  Arena weights, grads, state, keep, temp;

  static Memory measuring() {
    return {Arena("weights"), Arena("gradients"), Arena("state"), Arena("kept"), Arena("scratch")};
  }
  static Memory backed(const Memory& m) {
    return {Arena("weights", m.weights.peak()), Arena("gradients", m.grads.peak()),
            Arena("state", m.state.peak()), Arena("kept", m.keep.peak()),
            Arena("scratch", m.temp.peak())};
  }
  std::vector<i64> peaks() const {
    return {weights.peak(), grads.peak(), state.peak(), keep.peak(), temp.peak()};
  }
};

/// What a run builds on its memory.
struct Machine {
  const kernels::Kernels& k;
  Queue& q;
  Recompute recompute;
  Ctx c;
  parallel::ParamSet params;
  Transformer model;

  Machine(const ModelConfig& m, const numerics::Recipe& r, const kernels::Kernels& kernels,
          Queue& queue, Memory& mem, Recompute rec)
      : k(kernels),
        q(queue),
        recompute(rec),
        c{k, r, q, mem.keep, mem.temp},
        params(param_specs(m), r, mem.weights, &mem.grads),
        model(m, params) {
    model.take_state(c, mem.state, true);
  }
  void train(const Batch& b, const Tensor& loss) { model.train(c, b, loss, recompute); }
};

struct RigOptions {
  std::string recipe = "fp32";
  const kernels::Kernels* kernels = &kernels::ref();
  int threads = 1;
  Recompute recompute = Recompute::none;
  i64 micro = 1;  // sequences of a micro-batch
  i64 time = 0;   // of a sequence; 0: the padded context
};

/// A model whose memory is exactly what a dry run of it asked for.
class Rig {
 public:
  Rig(const ModelConfig& m, const RigOptions& o)
      : o_(o),
        queue_(o.threads),
        measured_(measure(m, o)),
        memory_(Memory::backed(measured_)),
        machine_(m, numerics::recipe(o.recipe), *o.kernels, queue_, memory_, o.recompute) {
    machine_.params.init(7);
    // Gains and biases too must differ from element to element, or a wrong index goes unseen.
    for (parallel::Param& p : params().all())
      if (p.spec.init_std == 0)
        for (i64 i = 0; i < p.spec.cols; ++i)
          set(p, 0, i, get(p.master, 0, i) + 0.2 * Rng{5}.normal(static_cast<u64>(i)));
    params().refresh_work(queue_, *o.kernels);
  }

  /// Sum of the losses; gradients are left in the parameters.
  double learn(const Text& text) {
    params().zero_grads(queue_, *o_.kernels);
    double sum = 0;
    for (i64 b = 0; b < text.batch; b += o_.micro)
      machine_.train(text.rows(b, o_.micro), tensor(&sum, 1, 1));
    machine_.model.finish_gradients(machine_.c);
    return sum;
  }
  double evaluate(const Text& text) {
    double sum = 0;
    for (i64 b = 0; b < text.batch; b += o_.micro)
      machine_.model.evaluate(machine_.c, text.rows(b, o_.micro), tensor(&sum, 1, 1));
    return sum;
  }
  /// Logits (B T, tokens), row after row. Scratch is enough for one micro-batch of them.
  std::vector<double> logits(const Text& text) {
    const ModelConfig& m = machine_.model.config();
    std::vector<double> all;
    Arena out("out", text.time * o_.micro * m.vocab * 8 + Arena::kAlign);
    for (i64 b = 0; b < text.batch; b += o_.micro) {
      const Frame frame(out);
      const Tensor y = out.take("logits", machine_.c.recipe.master, o_.micro * text.time, m.vocab);
      machine_.model.logits(machine_.c, text.rows(b, o_.micro), y);
      for (i64 r = 0; r < y.rows; ++r)
        for (i64 v = 0; v < m.tokens; ++v) all.push_back(get(y, r, v));
    }
    return all;
  }
  /// Every gradient, in the order of the table.
  std::vector<double> gradients() {
    std::vector<double> all;
    for (const parallel::Param& p : params().all())
      for (i64 r = 0; r < p.spec.rows; ++r)
        for (i64 i = 0; i < p.spec.cols; ++i) all.push_back(get(p.grad, r, i));
    return all;
  }

  static double get(const Tensor& t, i64 r, i64 i) {
    return t.type == DType::f64 ? t.row<double>(r)[i] : static_cast<double>(t.row<float>(r)[i]);
  }
  static void set(parallel::Param& p, i64 r, i64 i, double x) {
    if (p.master.type == DType::f64)
      p.master.row<double>(r)[i] = x;
    else
      p.master.row<float>(r)[i] = static_cast<float>(x);
  }

  parallel::ParamSet& params() { return machine_.params; }
  const Transformer& model() const { return machine_.model; }
  Ctx& ctx() { return machine_.c; }
  Queue& queue() { return queue_; }
  const Memory& memory() const { return memory_; }
  const Memory& measured() const { return measured_; }

 private:
  static Memory measure(const ModelConfig& m, const RigOptions& o) {
    Memory mem = Memory::measuring();
    Queue dry(0);
    Machine machine(m, numerics::recipe(o.recipe), kernels::dry(), dry, mem, o.recompute);
    const Batch b{nullptr, nullptr, nullptr, o.micro, o.time > 0 ? o.time : padded_time(m.context)};
    const Tensor loss{nullptr, DType::f64, 1, 1, 1};
    machine.train(b, loss);
    machine.model.evaluate(machine.c, b, loss);
    return mem;
  }

  RigOptions o_;
  Queue queue_;
  Memory measured_, memory_;
  Machine machine_;
};

}  // namespace lathe::model
