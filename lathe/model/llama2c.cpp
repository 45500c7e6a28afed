#include "lathe/model/llama2c.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <string>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/model/config.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

namespace {

constexpr i64 kHeaderBytes = 7 * 4;
constexpr i32 kLaterVersion = 0x616b3432;  // "ak42" begins the format's later versions

/// A run of weights in the file, moving on as they are read.
struct Cursor {
  const std::byte* at;

  /// `rows` rows go to rows from(0), from(1), … of p.
  template <class F>
  void rows(const parallel::Param& p, i64 rows, F to) {
    const i64 cols = p.spec.cols;
    for (i64 r = 0; r < rows; ++r)
      for (i64 i = 0; i < cols; ++i, at += 4) {
        float x;
        std::memcpy(&x, at, 4);
        if (p.master.type == DType::f64)
          p.master.row<double>(to(r))[i] = static_cast<double>(x);
        else
          p.master.row<float>(to(r))[i] = x;
      }
  }
  void rows(const parallel::Param& p, i64 n, i64 first = 0) {
    rows(p, n, [&](i64 r) { return first + r; });
  }
};

std::string layer(i64 l, const char* what) { return "layers." + std::to_string(l) + what; }

void check_range(const std::string& path, const char* what, i64 value, i64 most) {
  if (value >= 1 && value <= most) return;
  throw Error("the model's {} is {}: not between 1 and {}", what, value, most)
      .at(path)
      .hint("is this a llama2.c model file (version 0)?");
}

/// Float32 weights that follow the header.
i64 weights_of(const ModelConfig& m) {
  const i64 C = m.width, kv = m.kv_heads * m.head_dim;
  const i64 block = 2 * C + 2 * C * C + 2 * C * kv + 3 * C * m.hidden;
  const i64 angles = m.context * (m.head_dim / 2) * 2;
  return m.vocab * C * (m.tied == 1 ? 1 : 2) + m.layers * block + C + angles;
}

ModelConfig read_header(const std::string& path, const std::byte* data) {
  std::array<i32, 7> h;
  std::memcpy(h.data(), data, kHeaderBytes);
  if (h[0] == kLaterVersion)
    throw Error("this is a later version of the llama2.c model format")
        .at(path)
        .hint("export it again with --version 0");
  ModelConfig m;
  m.family = "llama";
  m.width = h[0];
  m.hidden = h[1];
  m.layers = h[2];
  m.heads = h[3];
  m.kv_heads = h[4];
  m.vocab = h[5] < 0 ? -i64{h[5]} : i64{h[5]};
  m.context = h[6];
  m.tied = h[5] > 0 ? 1 : 0;
  check_range(path, "width", m.width, 1 << 20);
  check_range(path, "hidden size", m.hidden, 1 << 20);
  check_range(path, "number of layers", m.layers, 1 << 12);
  check_range(path, "number of heads", m.heads, m.width);
  check_range(path, "number of key and value heads", m.kv_heads, m.heads);
  check_range(path, "vocabulary", m.vocab, 1 << 24);
  check_range(path, "context", m.context, 1 << 24);
  if (m.width % m.heads != 0 || m.heads % m.kv_heads != 0 || m.width / m.heads % 2 != 0)
    throw Error("{} heads and {} key and value heads do not fit a width of {}", m.heads, m.kv_heads,
                m.width)
        .at(path)
        .hint("is this a llama2.c model file (version 0)?");
  m.head_dim = m.width / m.heads;
  m.tokens = m.vocab;
  return m;
}

}  // namespace

Llama2c::Llama2c(const std::string& path) : file_(path) {
  if (file_.size() < kHeaderBytes)
    throw Error("{} bytes are too few for a llama2.c model", file_.size()).at(path);
  config_ = read_header(path, file_.data());
  const i64 expected = kHeaderBytes + 4 * weights_of(config_);
  if (file_.size() != expected)
    throw Error("the file has {} bytes where its header asks for {}", file_.size(), expected)
        .at(path)
        .hint("copy it again: it was cut short, or it is no llama2.c model (version 0)");
}

void Llama2c::read_weights(parallel::ParamSet& p) const {
  file_.check_unchanged();
  const ModelConfig& m = config_;
  const i64 C = m.width, D = m.head_dim, F = m.hidden, q = m.heads * D, kv = m.kv_heads * D;
  const auto halves = [&](i64 first) {
    return [first, D](i64 r) { return first + r / D * D + r % D / 2 + r % 2 * (D / 2); };
  };
  Cursor in{file_.data() + kHeaderBytes};
  const auto each = [&](const char* what, auto&& read) {
    for (i64 l = 0; l < m.layers; ++l) read(p.at(layer(l, what)));
  };
  using parallel::Param;
  in.rows(p.at("embed.token"), m.vocab);
  each(".norm1.gain", [&](const Param& x) { in.rows(x, 1); });
  each(".attn.qkv", [&](const Param& x) { in.rows(x, q, halves(0)); });
  each(".attn.qkv", [&](const Param& x) { in.rows(x, kv, halves(q)); });
  each(".attn.qkv", [&](const Param& x) { in.rows(x, kv, q + kv); });
  each(".attn.out", [&](const Param& x) { in.rows(x, C); });
  each(".norm2.gain", [&](const Param& x) { in.rows(x, 1); });
  each(".mlp.gate_up", [&](const Param& x) { in.rows(x, F); });
  each(".mlp.down", [&](const Param& x) { in.rows(x, C); });
  each(".mlp.gate_up", [&](const Param& x) { in.rows(x, F, F); });
  in.rows(p.at("norm.gain"), 1);
  in.at += 4 * m.context * D;  // angles, which are computed here
  if (m.tied == 0) in.rows(p.at("head"), m.vocab);
}

}  // namespace lathe::model
