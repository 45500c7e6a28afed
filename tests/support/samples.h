#pragma once
// 32768 samples of three kinds, and what an independent reference found each format to do to them.

#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <string_view>
#include <vector>

#include "lathe/base/view.h"

namespace lathe::testing_support {

inline constexpr int kSamples = 32768;

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
  std::vector<float> normal, outliers, lognormal;
};

/// N(0, 1); the same with one in a thousand fifty times larger; ± e^(2 N(0, 1)).
inline Samples samples() {
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

/// Signal over noise, and the share of values that became zero in per cent.
struct Figure {
  double decibels, underflow;
};

struct Figures {
  std::string_view name;
  std::array<Figure, 3> of;  // normal, outliers, lognormal
};

inline constexpr Figures kFigures[] = {
    {"bf16", {{{55.6, 0}, {56.2, 0}, {55.6, 0}}}},
    {"e4m3", {{{31.5, 0}, {31.7, .006}, {33.3, .92}}}},
    {"e5m2", {{{25.5, 0}, {26.2, 0}, {26.7, 0}}}},
    {"hif8", {{{31.5, 0}, {27.8, 0}, {21.5, 0}}}},
    {"mxfp8 floor", {{{30.8, 0}, {29.6, 0}, {29.1, .006}}}},
    {"mxfp8 round-up", {{{31.5, 0}, {31.2, 0}, {31.7, .009}}}},
    {"mxfp8e5m2 round-up", {{{25.5, 0}, {26.5, 0}, {27.7, 0}}}},
    {"mxfp6e2m3 floor", {{{31.0, 2.1}, {27.5, 3.3}, {29.4, 43}}}},
    {"mxfp6e3m2 floor", {{{25.3, .21}, {26.2, .42}, {26.7, 14}}}},
    {"mxint8 floor", {{{41.6, 1.1}, {36.1, 1.6}, {37.7, 32}}}},
    {"mxfp4 floor", {{{18.9, 8.6}, {16.8, 10.8}, {18.4, 68}}}},
    {"mxfp4 round-up", {{{18.8, 10.3}, {17.5, 12.9}, {19.3, 72}}}},
    {"nvfp4", {{{20.4, 6.5}, {23.0, 7.8}, {27.1, 55}}}}};

/// Whether `got` is as `want` to its last digit. Decibels may differ by 0.3. Underflow is given to
/// two digits, half a unit of the second being at most 5 %; and one sample may fall otherwise,
/// since the reference did not round the samples to FP32 first.
inline bool agree(const Figure& got, const Figure& want) {
  constexpr double kOneSample = 100.5 / kSamples;
  return std::fabs(got.decibels - want.decibels) <= 0.3 &&
         std::fabs(got.underflow - want.underflow) <= 0.05 * want.underflow + kOneSample;
}

}  // namespace lathe::testing_support
