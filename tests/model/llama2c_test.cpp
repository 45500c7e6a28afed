// A trained model in llama2.c's format: read, decoded, and compared with an evaluation of the file
// that shares nothing with the engine.

#include "lathe/model/llama2c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/model/config.h"
#include "lathe/model/ctx.h"
#include "lathe/model/decode.h"
#include "lathe/model/sampler.h"
#include "lathe/model/transformer.h"
#include "lathe/numerics/recipe.h"
#include "lathe/parallel/params.h"

namespace lathe::model {
namespace {

const std::string kFolder = "../shared/data/models/";
constexpr i32 kBegin = 1;  // the id that begins a text

/// The file as an array of float, and the plainest evaluation of it, in double.
class Plain {
 public:
  explicit Plain(const std::string& bytes) : values_(bytes.size() / 4) {
    std::memcpy(values_.data(), bytes.data(), bytes.size());
    std::memcpy(header_, bytes.data(), sizeof header_);
  }

  /// Logits after the last of `ids`. Every token is worked through anew: no cache.
  std::vector<double> logits(const std::vector<i32>& ids) const {
    const int dim = header_[0], hidden = header_[1], layers = header_[2], heads = header_[3];
    const int kv_heads = header_[4], vocab = std::abs(header_[5]), size = dim / heads;
    const int kv_dim = kv_heads * size, n = static_cast<int>(ids.size());
    const float* embedding = values_.data() + 7;
    const float* norm1 = embedding + vocab * dim;
    const float* wq = norm1 + layers * dim;
    const float* wk = wq + layers * dim * dim;
    const float* wv = wk + layers * kv_dim * dim;
    const float* wo = wv + layers * kv_dim * dim;
    const float* norm2 = wo + layers * dim * dim;
    const float* w1 = norm2 + layers * dim;
    const float* w2 = w1 + layers * hidden * dim;
    const float* w3 = w2 + layers * hidden * dim;
    const float* last = w3 + layers * hidden * dim;

    std::vector<std::vector<double>> x(static_cast<std::size_t>(n));
    for (int t = 0; t < n; ++t) {
      const float* row = embedding + ids[at(t)] * dim;
      x[at(t)].assign(row, row + dim);
    }
    for (int l = 0; l < layers; ++l) {
      std::vector<std::vector<double>> q, k, v;
      for (int t = 0; t < n; ++t) {
        const std::vector<double> y = norm(x[at(t)], norm1 + l * dim);
        q.push_back(turn(times(wq + l * dim * dim, y, dim), size, t));
        k.push_back(turn(times(wk + l * kv_dim * dim, y, kv_dim), size, t));
        v.push_back(times(wv + l * kv_dim * dim, y, kv_dim));
      }
      for (int t = 0; t < n; ++t) {
        std::vector<double> seen(at(dim));
        for (int h = 0; h < heads; ++h) {
          const int g = h / (heads / kv_heads);
          std::vector<double> share(at(t + 1));
          double sum = 0;
          for (int s = 0; s <= t; ++s) {
            double score = 0;
            for (int i = 0; i < size; ++i)
              score += q[at(t)][at(h * size + i)] * k[at(s)][at(g * size + i)];
            sum += share[at(s)] = std::exp(score / std::sqrt(size));
          }
          for (int s = 0; s <= t; ++s)
            for (int i = 0; i < size; ++i)
              seen[at(h * size + i)] += share[at(s)] / sum * v[at(s)][at(g * size + i)];
        }
        add(x[at(t)], times(wo + l * dim * dim, seen, dim));
        const std::vector<double> y = norm(x[at(t)], norm2 + l * dim);
        std::vector<double> gate = times(w1 + l * hidden * dim, y, hidden);
        const std::vector<double> up = times(w3 + l * hidden * dim, y, hidden);
        for (int i = 0; i < hidden; ++i) gate[at(i)] *= up[at(i)] / (1 + std::exp(-gate[at(i)]));
        add(x[at(t)], times(w2 + l * dim * hidden, gate, dim));
      }
    }
    return times(embedding, norm(x.back(), last), vocab);
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  static std::vector<double> times(const float* w, const std::vector<double>& x, int rows) {
    std::vector<double> y(at(rows));
    for (double& sum : y)
      for (const double xi : x) sum += static_cast<double>(*w++) * xi;
    return y;
  }
  static std::vector<double> norm(const std::vector<double>& x, const float* gain) {
    double squares = 0;
    for (const double v : x) squares += v * v;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + 1e-5);
    std::vector<double> y;
    for (const double v : x) y.push_back(v * scale * static_cast<double>(*gain++));
    return y;
  }
  /// Neighbouring elements are the pairs that turn.
  static std::vector<double> turn(std::vector<double> x, int size, int position) {
    for (std::size_t i = 0; i < x.size(); i += 2) {
      const double of = static_cast<double>(i % at(size));
      const double angle = position * std::pow(10000.0, -of / size);
      const double a = x[i], b = x[i + 1];
      x[i] = a * std::cos(angle) - b * std::sin(angle);
      x[i + 1] = a * std::sin(angle) + b * std::cos(angle);
    }
    return x;
  }
  static void add(std::vector<double>& x, const std::vector<double>& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  std::vector<float> values_;
  i32 header_[7];
};

/// The engine's reading of the same file.
struct Engine {
  const numerics::Recipe& recipe;
  const kernels::Kernels& k;
  Arena weights{"weights", 8 << 20}, state{"state", 1 << 20};
  Queue q{1};
  parallel::ParamSet params;
  Transformer model;

  Engine(const Llama2c& file, const std::string& recipe_name, const kernels::Kernels& table)
      : recipe(numerics::recipe(recipe_name)),
        k(table),
        params(param_specs(file.config()), recipe, weights, nullptr),
        model(file.config(), params) {
    file.read_weights(params);
    params.refresh_work(q, k);
    Ctx c{k, recipe, q, state, state};
    model.take_state(c, state, false);
  }
};

/// The words of a tok*.bin: a length, then for each word a score, its length and its bytes.
std::vector<std::string> read_words(const std::string& bytes) {
  std::vector<std::string> words;
  for (std::size_t i = 4; i < bytes.size();) {
    i32 length;
    std::memcpy(&length, bytes.data() + i + 4, 4);
    words.push_back(bytes.substr(i + 8, static_cast<std::size_t>(length)));
    i += 8 + static_cast<std::size_t>(length);
  }
  return words;
}

bool have_model() { return std::filesystem::exists(kFolder + "stories260K.bin"); }

#define SKIP_WITHOUT_MODEL() \
  if (!have_model()) GTEST_SKIP() << kFolder << "stories260K.bin is not there"

TEST(Llama2c, AnEmptyPromptIsContinuedInEnglish) {
  SKIP_WITHOUT_MODEL();
  const Llama2c file(kFolder + "stories260K.bin");
  const std::vector<std::string> words = read_words(read_file(kFolder + "tok512.bin"));
  for (const char* recipe : {"fp32", "bf16"}) {
    Engine e(file, recipe, kernels::select("auto"));
    DecoderMemory memory = DecoderMemory::backed(DecoderMemory::measured(e.model, e.recipe));
    Decoder d(e.model, e.k, e.recipe, e.q, memory.cache, memory.scratch);
    std::string text;
    i32 id = kBegin;
    for (int i = 0; i < 120; ++i) {
      id = pick(d.next(id), {.temperature = 0}, i);
      if (id == kBegin) break;
      text += words.at(static_cast<std::size_t>(id));
    }
    EXPECT_EQ(text.substr(0, 17), " Once upon a time") << recipe << ": " << text;
  }
}

// Bound: a logit hangs on one path of sums of `steps` terms; each of them rounds once, by u of
// sums that stay below the largest logit times the growth of the residual stream, for which the
// number of additions to it stands.
TEST(Llama2c, LogitsAreThoseOfAnIndependentEvaluation) {
  SKIP_WITHOUT_MODEL();
  const std::string path = kFolder + "stories260K.bin";
  const Llama2c file(path);
  const Plain plain(read_file(path));
  const ModelConfig& m = file.config();
  struct Precision {
    const char* recipe;
    double unit;
  };
  for (const Precision& p : {Precision{"fp32", 0x1p-24}, Precision{"fp64", 0x1p-53}}) {
    Engine e(file, p.recipe, kernels::ref());
    DecoderMemory memory = DecoderMemory::backed(DecoderMemory::measured(e.model, e.recipe));
    Decoder d(e.model, e.k, e.recipe, e.q, memory.cache, memory.scratch);
    std::vector<i32> ids{kBegin};
    constexpr i64 kTokens = 48;
    for (i64 t = 0; t < kTokens; ++t) {
      const std::span<const float> got = d.next(ids.back());
      const std::vector<double> expected = plain.logits(ids);
      double largest = 0;
      for (const double x : expected) largest = std::max(largest, std::abs(x));
      const i64 block = 3 * m.width + m.head_dim + m.hidden + t;
      const double steps = static_cast<double>(m.layers * block + m.width);
      const double additions = static_cast<double>(2 * m.layers);
      // The decoder hands out floats, whatever it computed in.
      const double bound = largest * (steps * additions * p.unit + 0x1p-24);
      for (std::size_t v = 0; v < expected.size(); ++v)
        ASSERT_NEAR(static_cast<double>(got[v]), expected[v], bound)
            << p.recipe << ", token " << t << ", id " << v;
      ids.push_back(pick(got, {.temperature = 0}, t));
    }
  }
}

/// A well-formed file of a tiny model.
std::string tiny_file(std::vector<i32> header = {8, 12, 2, 2, 1, 10, 6}, i64 floats = -1) {
  const i64 C = 8, F = 12, L = 2, V = 10, T = 6, kv = 4, D = 4;
  const i64 all = V * C + L * (2 * C + 2 * C * C + 2 * C * kv + 3 * C * F) + C + T * D;
  std::string bytes(28 + 4 * static_cast<std::size_t>(floats < 0 ? all : floats), '\0');
  std::memcpy(bytes.data(), header.data(), 28);
  for (std::size_t i = 28; i + 4 <= bytes.size(); i += 4) {
    const std::size_t index = i / 4 - 7;
    const auto x = static_cast<float>(index);
    std::memcpy(bytes.data() + i, &x, 4);
  }
  return bytes;
}

class Llama2cFile : public testing::Test {
 protected:
  std::string write(const std::string& bytes) const {
    write_atomically(path_, bytes);
    return path_;
  }
  void TearDown() override { std::filesystem::remove(path_); }
  const std::string path_ = testing::TempDir() + "llama2c_" +
                            testing::UnitTest::GetInstance()->current_test_info()->name() + ".bin";
};

TEST_F(Llama2cFile, QueriesAndKeysAreReorderedFromNeighboursToHalves) {
  const Llama2c file(write(tiny_file()));
  Arena weights("weights", 1 << 20);
  parallel::ParamSet p(param_specs(file.config()), numerics::recipe("fp32"), weights, nullptr);
  file.read_weights(p);
  // Rows of layer 1's queries begin after the embedding, both gains and layer 0's queries.
  const auto row = [](i64 r) { return static_cast<float>(80 + 16 + 64 + 8 * r); };
  const Tensor qkv = p.at("layers.1.attn.qkv").master;
  const std::vector<i64> order{0, 2, 1, 3, 4, 6, 5, 7};
  for (i64 r = 0; r < 8; ++r)
    EXPECT_EQ(qkv.row<float>(r)[0], row(order[static_cast<std::size_t>(r)])) << r;
}

TEST_F(Llama2cFile, ASizeThatDoesNotFitIsRefusedWithTheFileNamed) {
  const std::vector<std::vector<i32>> headers{{0, 12, 2, 2, 1, 10, 6},
                                              {8, -1, 2, 2, 1, 10, 6},
                                              {8, 12, 2, 3, 1, 10, 6},
                                              {8, 12, 2, 2, 3, 10, 6},
                                              {8, 12, 2, 2, 1, 0, 6},
                                              {8, 12, 2, 2, 1, 10, 0},
                                              {8, 12, 2, 2, 1, -2147483647, 6},
                                              {8, 12, 2, 8, 1, 10, 6},
                                              {1 << 30, 12, 2, 2, 1, 10, 6},
                                              {8, 12, 1 << 30, 2, 1, 10, 6},
                                              {8, 12, 2, 2, 1, -10, 6},
                                              {0x616b3432, 1, 2, 2, 1, 10, 6},
                                              {8, 12, 2, 2, 1, -2147483647 - 1, 6}};
  for (const std::vector<i32>& h : headers) {
    const std::string path = write(tiny_file(h));
    try {
      const Llama2c file(path);
      ADD_FAILURE() << "accepted";
    } catch (const Error& e) {
      EXPECT_NE(e.report().find(path), std::string::npos) << e.report();
    }
  }
}

TEST_F(Llama2cFile, AFileOfAnyOtherLengthIsRefused) {
  const std::string whole = tiny_file();
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{4}, std::size_t{27}, std::size_t{28},
                                  whole.size() - 4, whole.size() - 1})
    EXPECT_THROW(Llama2c(write(whole.substr(0, bytes))), Error) << bytes;
  EXPECT_THROW(Llama2c(write(whole + "x")), Error);
  EXPECT_THROW(Llama2c(write(whole + whole)), Error);
  EXPECT_THROW(Llama2c("no/such/model.bin"), Error);
}

}  // namespace
}  // namespace lathe::model
