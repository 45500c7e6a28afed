#pragma once
// One token after another, with the keys and values of those before in a cache.

#include <span>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/model/ctx.h"
#include "lathe/model/transformer.h"
#include "lathe/numerics/recipe.h"

namespace lathe::model {

class Decoder {
 public:
  /// All it is given must outlive it, and t.take_state must have been called. Keys and values lie
  /// in `cache` for as long as it lives; each token takes `scratch` and gives it back. With dry
  /// kernels and measuring arenas, next() finds out how much of both it takes.
  Decoder(const Transformer& t, const kernels::Kernels& k, const numerics::Recipe& r, Queue& q,
          Arena& cache, Arena& scratch);

  /// Takes the next token of the text, an id below the vocabulary's size, and returns the logits
  /// of the one after it: one for each id that the tokenizer knows, valid until the next call. Must
  /// not be full.
  std::span<const float> next(i32 token);

  /// Tokens taken so far; the context holds no more once full.
  i64 position() const { return position_; }
  i64 context() const { return transformer_.config().context; }
  bool full() const { return position_ >= context(); }
  /// Begins another text.
  void reset() { position_ = 0; }

 private:
  struct Cache {
    std::vector<Tensor> keys, values;  // of each block: (context, Hkv D)
    Tensor logits;                     // (1, V) master type
  };
  static Cache take_cache(const ModelConfig& m, const numerics::Recipe& r, Arena& a);

  const Transformer& transformer_;
  const kernels::Kernels& kernels_;
  const numerics::Recipe& recipe_;
  Queue& queue_;
  Frame frame_;
  Arena& scratch_;
  Cache cache_;
  std::vector<float> logits_;
  i64 position_ = 0;
};

/// Memory for a decoder by itself.
struct DecoderMemory {
  Arena cache, scratch;

  /// What a decoder of t asks for.
  static DecoderMemory measured(const Transformer& t, const numerics::Recipe& r);
  static DecoderMemory backed(const DecoderMemory& measured);
  i64 peak() const { return cache.peak() + scratch.peak(); }
};

}  // namespace lathe::model
