#pragma once
// The shape of a model.

#include <string>

#include "lathe/base/config.h"
#include "lathe/base/view.h"

namespace lathe::model {

enum class Family : u8 { gpt2, llama };

/// As read from [model]; 0 and -1 mean "the family's default" until resolve() has filled them in.
struct ModelConfig {
  std::string family = "llama";
  i64 vocab = 0;   // 0: the tokenizer's, rounded up to a multiple of 64
  i64 tokens = 0;  // ids that occur: rows past them are padding, masked in loss; 0: all of vocab
  i64 layers = 4, width = 256, heads = 8;
  i64 kv_heads = 0;       // 0: heads
  i64 head_dim = 0;       // 0: width / heads
  i64 hidden = 0;         // 0: gpt2 4 width; llama 8/3 width, up to a multiple of 64
  i64 context = 256;      // tokens of a sequence
  i64 window = 0;         // tokens that a token sees; 0: all
  int tied = -1;          // 1: the head is the token embedding; -1: gpt2 1, llama 0
  bool qkv_bias = false;  // llama; gpt2 always has biases
  bool qk_norm = false;   // llama: RMS norm over each head of q and k, before RoPE
  double rope_theta = 10000;
  double norm_eps = 1e-5;
  double init_std = 0.02;  // projections into the residual stream: divided by sqrt(2 layers)

  /// Columns of the logits that a token can have.
  i64 known() const { return tokens > 0 ? tokens : vocab; }
  bool gpt2() const { return family == "gpt2"; }
  i64 qkv_width() const { return (heads + 2 * kv_heads) * head_dim; }
};

template <class V>
void visit(V& v, ModelConfig& c) {
  v("family", c.family, "gpt2: learned positions, LayerNorm, GELU; llama: RoPE, RMSNorm, SwiGLU",
    one_of({"llama", "gpt2"}));
  v("vocab", c.vocab, "rows of the embedding; 0: the tokenizer's, up to a multiple of 64",
    at_least(0));
  v("tokens", c.tokens, "ids that occur, the rest of vocab being padding; 0: the tokenizer's",
    at_least(0));
  v("layers", c.layers, "blocks", at_least(1));
  v("width", c.width, "elements of a token's vector", at_least(1));
  v("heads", c.heads, "query heads", at_least(1));
  v("kv_heads", c.kv_heads, "key and value heads, shared by groups of query heads; 0: heads",
    at_least(0));
  v("head_dim", c.head_dim, "elements of a head; 0: width / heads", at_least(0));
  v("hidden", c.hidden, "hidden units of the MLP; 0: 4 width (gpt2), 8/3 width (llama)",
    at_least(0));
  v("context", c.context, "tokens of a sequence", at_least(1));
  v("window", c.window, "tokens that a token sees, itself included; 0: all before it", at_least(0));
  v("tied", c.tied, "1: the head is the token embedding, 0: its own; -1: the family's habit",
    between(-1, 1));
  v("qkv_bias", c.qkv_bias, "llama: biases on queries, keys and values");
  v("qk_norm", c.qk_norm, "llama: RMS norm over each head of queries and keys");
  v("rope_theta", c.rope_theta, "llama: base of the rotation's wavelengths", at_least(1));
  v("norm_eps", c.norm_eps, "added to the mean square in norms", between(0, 1));
  v("init_std", c.init_std, "deviation of the initial weights", between(0, 10));
}

/// Fills in the defaults. `tokens` is the tokenizer's vocabulary, 0 when there is none.
void resolve(ModelConfig& m, i64 tokens);

/// Throws Error naming the key ("model.heads") where the sizes do not fit one another. Called after
/// resolve; the caller adds file and line.
void check(const ModelConfig& m);

}  // namespace lathe::model
