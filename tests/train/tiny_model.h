#pragma once
// A model of a few hundred weights with an optimizer, for tests of what is saved.

#include <memory>
#include <string>
#include <vector>

#include "lathe/kernels/kernels.h"
#include "lathe/model/transformer.h"
#include "lathe/numerics/recipe.h"
#include "lathe/numerics/recipe_text.h"
#include "lathe/optim/optimizer.h"
#include "lathe/train/checkpoint.h"

namespace lathe::train {

inline model::ModelConfig tiny_model(i64 width = 8) {
  model::ModelConfig m;
  m.family = "llama";
  m.vocab = 16;
  m.layers = 1;
  m.width = width;
  m.heads = 2;
  m.context = 32;
  model::resolve(m, 16);
  return m;
}

struct TinyModel {
  model::ModelConfig config;
  Arena weights{"weights", 1 << 20}, gradients{"gradients", 1 << 20}, state{"state", 1 << 20};
  Queue q{1};
  parallel::ParamSet params;
  std::unique_ptr<optim::Optimizer> optimizer;

  explicit TinyModel(u64 seed, const model::ModelConfig& m = tiny_model(),
                     const std::string& recipe = "fp32")
      : config(m),
        params(model::param_specs(m), numerics::recipe(recipe), weights, &gradients),
        optimizer(optim::adamw({}, params, state)) {
    params.init(seed);
    optimizer->reset(q, kernels::ref());
    for (const auto& [name, t] : optimizer->state())
      for (i64 i = 0; i < t.bytes(); ++i)
        static_cast<u8*>(t.data)[i] = static_cast<u8>(seed * 7 + static_cast<u64>(i) % 60);
  }

  CheckpointContents contents(i64 step) const {
    return {.info = {.step = step,
                     .sequences = 4 * step,
                     .tokens = 100 * step + 1,
                     .seconds = 0.1 * static_cast<double>(step),
                     .seed = 3,
                     .recipe = "fp32",
                     .results_hash = "abc",
                     .tokenizer_hash = "def",
                     .tokens_hash = "ghi",
                     .model = config},
            .params = params,
            .state = optimizer->state(),
            .config_toml = "[run]\nseed = 3\n",
            .recipe_toml = numerics::to_toml(numerics::recipe("fp32")),
            .tokenizer_path = {}};
  }

  /// The bytes of every master and moment.
  std::string bytes() const {
    std::string all;
    const auto add = [&](const Tensor& t) {
      all.append(static_cast<const char*>(t.data), static_cast<std::size_t>(t.bytes()));
    };
    for (const parallel::Param& p : params.all()) add(p.master);
    for (const auto& [name, t] : optimizer->state()) add(t);
    return all;
  }
};

}  // namespace lathe::train
