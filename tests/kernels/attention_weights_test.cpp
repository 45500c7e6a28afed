// Weights of attention in formats of few bits. Keys are such that a query's weights are what is
// asked for, and the values, or what flows back, hold a single one: so every output is one weight.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/kernels/math.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "tests/kernels/attention_cases.h"
#include "tests/kernels/emulated_amx_attention.h"

namespace lathe::kernels {
namespace {

using numerics::Encoding;
using numerics::Format;
using numerics::Scaling;
using numerics::Tie;
using Floats = Plain<float>;

/// Keys of a row of the batch, which are as many as a head is wide.
constexpr i64 kKeys = 64;
constexpr float kScale = 0.125F;  // 1 / sqrt(kKeys)

float exp_of(float x) { return exp(Floats::broadcast(x)).v[0]; }

bool is_wide(Format f) {
  return f == Format::f32 || f == Format::tf32 || f == Format::bf16 || f == Format::fp16;
}

/// All that a recipe may ask for.
std::vector<Encoding> encodings() {
  std::vector<Encoding> all{{.format = Format::bf16}, {.format = Format::f32}};
  for (const Tie tie : {Tie::even, Tie::away}) {
    for (const Format f : {Format::bf16, Format::fp16, Format::tf32, Format::e4m3, Format::e5m2,
                           Format::e4m3fnuz, Format::e5m2fnuz, Format::hif8})
      all.push_back({.format = f, .rounding = tie});
    for (const Format f : {Format::e4m3, Format::e5m2, Format::e4m3fnuz, Format::e5m2fnuz,
                           Format::e2m3, Format::e3m2, Format::e2m1, Format::mxint8, Format::hif8})
      all.push_back({.format = f, .scaling = Scaling::shift, .rounding = tie});
  }
  return all;
}

std::string describe(const Encoding& e) {
  return fmt::format("{} {} {}", numerics::info(e.format).name,
                     e.scaling == Scaling::shift ? "shifted" : "", static_cast<int>(e.rounding));
}

/// What 1 is multiplied by.
double shift_of(const Encoding& e) {
  if (e.scaling != Scaling::shift) return 1;
  return numerics::power_of_two(numerics::exponent_of(numerics::info(e.format).largest));
}

/// Kernels turn subnormal results into zero.
float flush(float x) { return x < std::numeric_limits<float>::min() ? 0 : x; }

/// The weight p as products see it.
float rounded(const Encoding& e, float p) {
  if (e.format == Format::f32) return p;
  const double times = shift_of(e);
  const numerics::Cast c{.tie = e.rounding, .subnormals = numerics::Subnormal::flush_input};
  const double seen = numerics::decode(e.format, numerics::encode(e.format, p * times, c));
  return static_cast<float>(seen / times);
}

/// Weights at and about the values of a format and the middles between them, and those of random
/// scores.
std::vector<float> weights_for(const Encoding& e) {
  std::vector<float> all{1, 0x1p-125F, 0x1.8p-120F, 0x1.55p-118F};
  const auto about = [&](double at) {
    const auto p = static_cast<float>(at);
    for (const float to : {0.0F, p, 2.0F})
      if (const float x = std::nextafter(p, to); x > 0 && x <= 1) all.push_back(x);
  };
  if (is_wide(e.format)) {
    // Bits 13 to 16 of the mantissa are the last that are kept and the first that are not.
    for (const u32 exponent : {2u, 5u, 10u, 40u, 100u, 112u, 114u, 120u, 125u, 126u})
      for (const u32 low :
           {0x0fffu, 0x1000u, 0x1001u, 0x3000u, 0x7fffu, 0x8000u, 0x8001u, 0x18000u})
        all.push_back(std::bit_cast<float>((exponent << 23) + 0x200000u + low));
  } else {
    const std::vector<double> values = numerics::finite_values(e.format);
    const double times = shift_of(e);
    for (std::size_t i = 1; i < values.size(); ++i) {
      if (values[i] <= 0) continue;
      about(values[i] / times);
      about((values[i - 1] + values[i]) / 2 / times);
    }
  }
  const Rng rng{21};
  for (u64 i = 0; i < 100; ++i) all.push_back(static_cast<float>(std::exp(-20 * rng.uniform(i))));
  return all;
}

/// A score whose exponential is p, or near it.
float score_of(float p) {
  const auto x = static_cast<float>(std::log(static_cast<double>(p)));
  float best = x;
  for (const float to : {-100.0F, 1.0F}) {
    float y = x;
    for (int step = 0; step < 3; ++step, y = std::nextafter(y, to))
      if (std::fabs(exp_of(y) - p) < std::fabs(exp_of(best) - p)) best = y;
  }
  return std::min(best, 0.0F);
}

/// Rows of the batch in each of which key 0 has score 0, and the others those of some weights.
struct Scores {
  i64 rows = 0;
  std::vector<float> at;  // (rows, kKeys)

  explicit Scores(const std::vector<float>& weights) {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (i % (kKeys - 1) == 0) at.resize(static_cast<std::size_t>(kKeys * ++rows), -1);
      const auto place = static_cast<std::size_t>((rows - 1) * kKeys);
      at[place] = 0;
      at[place + 1 + i % (kKeys - 1)] = score_of(weights[i]);
    }
  }
};

/// The trial whose scores these are: a query of ones, and keys that are the three parts of eight
/// bits of a score over kScale. Values, and what flows back, are the unit matrix.
template <class T>
Trial<T> trial_of(const Scores& s) {
  Trial<T> run({s.rows, kKeys, 1, 1, kKeys, 0, 1});
  std::fill(run.qkv.begin(), run.qkv.end(), from_double<T>(0));
  std::fill(run.dout.begin(), run.dout.end(), from_double<T>(0));
  for (i64 r = 0; r < s.rows * kKeys; ++r) {
    const auto row = static_cast<std::size_t>(r);
    T* token = run.qkv.data() + row * 3 * kKeys;
    double left = static_cast<double>(s.at[row]) / kScale;
    for (i64 part = 0; part < 3; ++part) {
      token[part] = from_double<T>(1);
      const bf16 upper{static_cast<u16>(std::bit_cast<u32>(static_cast<float>(left)) >> 16)};
      token[kKeys + part] = from_double<T>(to_float(upper));
      left -= to_float(upper);
    }
    EXPECT_EQ(left, 0);
    token[2 * kKeys + r % kKeys] = from_double<T>(1);
    run.dout[row * kKeys + row % kKeys] = from_double<T>(1);
  }
  return run;
}

/// out, and the part of the gradient that is of values, by numerics/cast.
template <class T>
struct Wanted {
  std::vector<T> out, dv;

  Wanted(const Scores& s, const std::vector<float>& lse, const Encoding& e)
      : out(static_cast<std::size_t>(s.rows * kKeys * kKeys), from_double<T>(0)), dv(out) {
    for (i64 r = 0; r < s.rows; ++r) {
      std::vector<float> p, seen;
      for (i64 k = 0; k < kKeys; ++k) {
        p.push_back(exp_of(s.at[static_cast<std::size_t>(r * kKeys + k)]));
        seen.push_back(rounded(e, p.back()));
      }
      Floats l = Floats::broadcast(0);
      for (i64 t = 0; t < kKeys; ++t) {
        l.v[t % kLanes] += p[static_cast<std::size_t>(t)];
        const float sum = l.sum();
        const i64 token = r * kKeys + t;
        for (i64 k = 0; k <= t; ++k) {
          const i64 key = r * kKeys + k;
          const float again =
              exp_of(s.at[static_cast<std::size_t>(key)] - lse[static_cast<std::size_t>(token)]);
          out[static_cast<std::size_t>(token * kKeys + k)] =
              from_double<T>(flush(seen[static_cast<std::size_t>(k)] / sum));
          dv[static_cast<std::size_t>(key * kKeys + t)] = from_double<T>(rounded(e, again));
        }
      }
    }
  }
};

/// The gradient of values in that of all.
template <class T>
std::vector<T> values_of(const std::vector<T>& dqkv) {
  std::vector<T> dv;
  for (std::size_t i = 0; i < dqkv.size(); ++i)
    if (i % (3 * kKeys) >= 2 * kKeys) dv.push_back(dqkv[i]);
  return dv;
}

template <class T>
void expect_weights_in_every_table(const Encoding& e) {
  const Scores scores(weights_for(e));
  const Format format = numerics::info(e.format).storage == DType::f32 ? Format::f32 : Format::bf16;
  Queue q(2);
  Trial<T> first = trial_of<T>(scores);
  first.compute(ref(), q, format, e);
  const Wanted<T> wanted(scores, first.lse, e);
  const auto with = [&](const Kernels& k) {
    Trial<T> run = trial_of<T>(scores);
    run.compute(k, q, format, e);
    EXPECT_TRUE(same_bits(run.lse, first.lse));
    EXPECT_TRUE(same_bits(run.out, wanted.out)) << "forward";
    EXPECT_TRUE(same_bits(values_of(run.dqkv), wanted.dv)) << "backward";
  };
  for_tables(with);
  const auto& tables = candidates();
  if (std::any_of(tables.begin(), tables.end(), [](const Candidate& c) {
        return c.table == &avx512bf16() && c.why_not.empty();
      })) {
    SCOPED_TRACE("tiles");
    Kernels tiles = avx512bf16();
    tiles.attention = emulated_amx_attention();
    with(tiles);
  }
}

TEST(AttentionWeights, AreTheScalarReferenceInEveryFormatAndTable) {
  for (const Encoding& e : encodings()) {
    SCOPED_TRACE(describe(e));
    expect_weights_in_every_table<float>(e);
    if (numerics::info(e.format).storage == DType::bf16) expect_weights_in_every_table<bf16>(e);
  }
}

// A tie that is no exponential of a float cannot be asked for; of every format enough others can.
TEST(AttentionWeights, CanBeAskedForAtTies) {
  for (const Encoding& e : encodings()) {
    i64 met = 0;
    for (const float p : weights_for(e)) met += exp_of(score_of(p)) == p;
    EXPECT_GE(met, 30) << describe(e);
  }
  EXPECT_EQ(exp_of(score_of(0.53125F)), 0.53125F);  // between HiF8's 0.5 and 0.5625
}

}  // namespace
}  // namespace lathe::kernels
