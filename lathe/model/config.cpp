#include "lathe/model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/view.h"

namespace lathe::model {

namespace {

// Sizes past these would overflow somewhere, and nobody means them.
constexpr i64 kMostWidth = i64{1} << 20, kMostIds = i64{1} << 24;
// Attention holds 512 queries and keys of a head in Queue::kWorkerScratch.
constexpr i64 kMostHeadDim = 512;

constexpr i64 round_up(i64 n, i64 multiple) { return (n + multiple - 1) / multiple * multiple; }

/// Divisors of n, ascending; of a large n only the small ones.
std::vector<i64> divisors(i64 n) {
  constexpr i64 kMost = 1 << 16;
  std::vector<i64> d;
  for (i64 i = 1; i <= std::min(n, kMost); ++i)
    if (n % i == 0) d.push_back(i);
  return d;
}

void check_sizes(const ModelConfig& m) {
  struct Limit {
    const char* key;
    i64 value, most;
  };
  for (const Limit& l :
       {Limit{"layers", m.layers, 10000}, Limit{"width", m.width, kMostWidth},
        Limit{"heads", m.heads, kMostWidth}, Limit{"kv_heads", m.kv_heads, kMostWidth},
        Limit{"head_dim", m.head_dim, kMostHeadDim}, Limit{"hidden", m.hidden, 4 * kMostWidth},
        Limit{"vocab", m.vocab, kMostIds}, Limit{"tokens", m.tokens, kMostIds},
        Limit{"context", m.context, kMostIds}})
    if (l.value > l.most)
      throw Error("model.{} = {} is too large", l.key, l.value).hint("at most {}", l.most);
}

void check_heads(const ModelConfig& m) {
  if (m.head_dim == 0)
    throw Error("model.heads = {} does not divide model.width = {}", m.heads, m.width)
        .hint("use a divisor of {} ({}), or set model.head_dim", m.width,
              fmt::join(divisors(m.width), ", "));
  if (m.kv_heads > m.heads || m.heads % m.kv_heads != 0)
    throw Error("model.kv_heads = {} does not divide model.heads = {}", m.kv_heads, m.heads)
        .hint("use one of {}", fmt::join(divisors(m.heads), ", "));
  // Decoding holds the queries that share keys in Queue::kWorkerScratch.
  constexpr i64 kMostGroup = 1024;
  if (m.heads / m.kv_heads > kMostGroup)
    throw Error("model.kv_heads = {} is too small: {} heads would share one", m.kv_heads,
                m.heads / m.kv_heads)
        .hint("use {} or more", (m.heads + kMostGroup - 1) / kMostGroup);
  if (!m.gpt2() && m.head_dim % 2 != 0)
    throw Error("model.head_dim = {} must be even: RoPE turns pairs of elements", m.head_dim)
        .hint("set model.heads so that width / heads is even, or model.head_dim = {}",
              m.head_dim + 1);
}

/// Keys of the other family are refused rather than ignored.
void check_family(const ModelConfig& m) {
  if (!m.gpt2()) return;
  if (m.kv_heads != m.heads)
    throw Error("model.kv_heads = {} is for family \"llama\": gpt2 has as many as heads",
                m.kv_heads)
        .hint("leave model.kv_heads out, or set model.family = \"llama\"");
  if (m.qkv_bias)
    throw Error("model.qkv_bias is for family \"llama\": gpt2 always has biases")
        .hint("leave model.qkv_bias out");
  if (m.qk_norm)
    throw Error("model.qk_norm is for family \"llama\"")
        .hint("leave model.qk_norm out, or set model.family = \"llama\"");
  if (m.rope_theta != ModelConfig{}.rope_theta)
    throw Error("model.rope_theta is for family \"llama\": gpt2 learns its positions")
        .hint("leave model.rope_theta out");
}

}  // namespace

void resolve(ModelConfig& m, i64 tokens) {
  if (m.tokens == 0) m.tokens = tokens > 0 ? tokens : m.vocab;
  // What is too large stays as it is: check() says so.
  if (m.vocab == 0 && m.tokens <= kMostIds) m.vocab = round_up(m.tokens, 64);
  if (m.kv_heads == 0) m.kv_heads = m.heads;
  // Left at 0 where heads do not divide the width: check() says so.
  if (m.head_dim == 0 && m.width % m.heads == 0) m.head_dim = m.width / m.heads;
  if (m.hidden == 0 && m.width <= kMostWidth)
    m.hidden = m.gpt2() ? 4 * m.width : round_up(8 * m.width / 3, 64);
  if (m.tied < 0) m.tied = m.gpt2() ? 1 : 0;
}

void check(const ModelConfig& m) {
  if (m.tokens == 0 && m.vocab == 0)
    throw Error("model.vocab is not known: there is no tokenizer to take it from")
        .hint("set data.shards to a folder that `lathe data` wrote, or model.vocab to a number");
  check_sizes(m);
  if (m.tokens > m.vocab)
    throw Error("model.vocab = {} is smaller than the {} ids of the tokenizer", m.vocab, m.tokens)
        .hint("use {} or more, or 0 to take the tokenizer's", round_up(m.tokens, 64));
  check_family(m);
  check_heads(m);
  if (m.window > m.context)
    throw Error("model.window = {} is longer than model.context = {}", m.window, m.context)
        .hint("leave model.window out: a token then sees all before it");
}

}  // namespace lathe::model
