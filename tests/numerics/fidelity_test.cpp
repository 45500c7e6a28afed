// The signal-to-noise ratio of each scheme on three kinds of data, against figures of an
// independent reference.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numbers>
#include <span>
#include <string>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/numerics/block.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/scale.h"

namespace lathe::numerics {
namespace {

using Values = std::vector<float>;
using Coder = std::function<std::vector<double>(const Values&)>;

constexpr int kSamples = 32768;

/// The Mersenne Twister as Python's `random` seeds and reads it, so that the samples are those that
/// the reference figures were taken from: noise with outliers depends on the few that are drawn.
class PythonRandom {
 public:
  explicit PythonRandom(u32 seed) {
    constexpr u32 kSize = 624;
    state_[0] = 19650218;
    for (u32 i = 1; i < kSize; ++i) state_[i] = 1812433253 * mixed(i) + i;
    u32 i = 1;
    for (u32 k = 0; k < kSize; ++k) step(i, (state_[i] ^ (mixed(i) * 1664525)) + seed);
    for (u32 k = 1; k < kSize; ++k) step(i, (state_[i] ^ (mixed(i) * 1566083941)) - i);
    state_[0] = 0x80000000;
  }

  double uniform() {
    const u32 high = word() >> 5, low = word() >> 6;
    return (high * 67108864.0 + low) / 9007199254740992.0;
  }

  double normal() {
    if (has_next_) {
      has_next_ = false;
      return next_;
    }
    const double angle = uniform() * 2 * std::numbers::pi;
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    next_ = std::sin(angle) * radius;
    has_next_ = true;
    return std::cos(angle) * radius;
  }

  double sign() {
    for (;;)
      if (const u32 two_bits = word() >> 30; two_bits < 2) return two_bits == 0 ? -1 : 1;
  }

 private:
  u32 mixed(u32 i) const { return state_[i - 1] ^ state_[i - 1] >> 30; }

  void step(u32& i, u32 value) {
    state_[i] = value;
    if (++i < 624) return;
    state_[0] = state_[623];
    i = 1;
  }

  u32 word() {
    const auto n = static_cast<std::size_t>(position_++ % 624);
    const u32 y = (state_[n] & 0x80000000) | (state_[(n + 1) % 624] & 0x7fffffff);
    u32 x = state_[n] = state_[(n + 397) % 624] ^ y >> 1 ^ ((y & 1) != 0 ? 0x9908b0df : 0);
    x ^= x >> 11;
    x ^= x << 7 & 0x9d2c5680;
    x ^= x << 15 & 0xefc60000;
    return x ^ x >> 18;
  }

  std::array<u32, 624> state_{};
  u64 position_ = 0;
  double next_ = 0;
  bool has_next_ = false;
};

struct Samples {
  Values normal, outliers, lognormal;
};

/// N(0, 1); the same with one in a thousand fifty times larger; ± e^(2 N(0, 1)).
Samples samples() {
  PythonRandom r(1234);
  Samples s;
  for (int n = 0; n < kSamples; ++n) s.normal.push_back(static_cast<float>(r.normal()));
  for (int n = 0; n < kSamples; ++n) {
    const double x = r.normal();
    s.outliers.push_back(static_cast<float>(r.uniform() < 0.001 ? x * 50 : x));
  }
  for (int n = 0; n < kSamples; ++n) {
    const double sign = r.sign();
    s.lognormal.push_back(static_cast<float>(sign * std::exp(2 * r.normal())));
  }
  return s;
}

Coder plain(Format f) {
  return [f](const Values& v) {
    std::vector<double> out;
    for (const float x : v) out.push_back(decode(f, encode(f, x, usual_cast(f))));
    return out;
  };
}

Coder by_tensor(Format f) {
  return [f](const Values& v) {
    const float scale = current_scale(f, amax(v));
    std::vector<double> out;
    for (const float x : v) out.push_back(decode(f, encode(f, x * scale, {})) / scale);
    return out;
  };
}

Coder blocks(BlockKind kind, MxRule rule) {
  return [=](const Values& v) {
    BlockOptions o{.rule = rule};
    o.amax = amax(v);
    std::vector<double> out;
    const auto size = static_cast<std::size_t>(info(kind).size);
    for (std::size_t n = 0; n < v.size(); n += size) {
      const auto d = decode_block(encode_block(kind, std::span(v).subspan(n, size), o));
      out.insert(out.end(), d.begin(), d.end());
    }
    return out;
  };
}

struct Fidelity {
  double decibels, underflow;  // per cent
};

Fidelity measure(const Coder& code, const Values& v) {
  const std::vector<double> q = code(v);
  double signal = 0, noise = 0, lost = 0;
  for (std::size_t n = 0; n < v.size(); ++n) {
    const double x = v[n];
    signal += x * x;
    noise += (x - q[n]) * (x - q[n]);
    lost += x != 0 && q[n] == 0;
  }
  return {10 * std::log10(signal / noise), 100 * lost / static_cast<double>(v.size())};
}

struct Row {
  std::string name;
  Coder code;
  std::array<Fidelity, 3> want;  // normal, outliers, lognormal
};

std::vector<Row> table() {
  using enum BlockKind;
  const MxRule floor = MxRule::floor, up = MxRule::round_up;
  return {{"bf16", plain(Format::bf16), {{{55.6, 0}, {56.2, 0}, {55.6, 0}}}},
          {"e4m3", by_tensor(Format::e4m3), {{{31.5, 0}, {31.7, .006}, {33.3, .92}}}},
          {"e5m2", by_tensor(Format::e5m2), {{{25.5, 0}, {26.2, 0}, {26.7, 0}}}},
          {"hif8", plain(Format::hif8), {{{31.5, 0}, {27.8, 0}, {21.5, 0}}}},
          {"mxfp8 floor", blocks(mxfp8, floor), {{{30.8, 0}, {29.6, 0}, {29.1, .006}}}},
          {"mxfp8 round-up", blocks(mxfp8, up), {{{31.5, 0}, {31.2, 0}, {31.7, .009}}}},
          {"mxfp8e5m2 round-up", blocks(mxfp8e5m2, up), {{{25.5, 0}, {26.5, 0}, {27.7, 0}}}},
          {"mxfp6e2m3 floor", blocks(mxfp6e2m3, floor), {{{31.0, 2.1}, {27.5, 3.3}, {29.4, 43}}}},
          {"mxfp6e3m2 floor", blocks(mxfp6e3m2, floor), {{{25.3, .21}, {26.2, .42}, {26.7, 14}}}},
          {"mxint8 floor", blocks(mxint8, floor), {{{41.6, 1.1}, {36.1, 1.6}, {37.7, 32}}}},
          {"mxfp4 floor", blocks(mxfp4, floor), {{{18.9, 8.6}, {16.8, 10.8}, {18.4, 68}}}},
          {"mxfp4 round-up", blocks(mxfp4, up), {{{18.8, 10.3}, {17.5, 12.9}, {19.3, 72}}}},
          {"nvfp4", blocks(nvfp4, floor), {{{20.4, 6.5}, {23.0, 7.8}, {27.1, 55}}}}};
}

TEST(Fidelity, TheSamplesArePythons) {
  PythonRandom r(1234);
  EXPECT_EQ(r.uniform(), 0.9664535356921388) << "random.Random(1234).random()";
}

/// Underflow is given to two digits, half a unit of the second being at most 5 %; and one sample
/// may fall otherwise, since the reference did not round the samples to FP32 first.
TEST(Fidelity, NoiseAndUnderflowAreThoseOfTheReference) {
  constexpr double kOneSample = 100.5 / kSamples;
  const Samples s = samples();
  for (const Row& r : table()) {
    const Values* inputs[]{&s.normal, &s.outliers, &s.lognormal};
    for (std::size_t n = 0; n < 3; ++n) {
      const Fidelity got = measure(r.code, *inputs[n]), want = r.want[n];
      EXPECT_NEAR(got.decibels, want.decibels, 0.3) << r.name << ", data " << n;
      EXPECT_NEAR(got.underflow, want.underflow, 0.05 * want.underflow + kOneSample)
          << r.name << ", data " << n;
    }
  }
}

}  // namespace
}  // namespace lathe::numerics
