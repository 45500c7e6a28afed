// The signal-to-noise ratio of each scheme on three kinds of data, against figures of an
// independent reference.

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "lathe/numerics/block.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/scale.h"
#include "tests/support/samples.h"

namespace lathe::numerics {
namespace {

using testing_support::Figure;
using testing_support::Figures;
using testing_support::kFigures;
using testing_support::PythonRandom;
using testing_support::Samples;

using Values = std::vector<float>;
using Coder = std::function<std::vector<double>(const Values&)>;

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

Figure measure(const Coder& code, const Values& v) {
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

Coder coder_of(std::string_view name) {
  using enum BlockKind;
  const MxRule rule = name.ends_with("round-up") ? MxRule::round_up : MxRule::floor;
  if (name == "bf16") return plain(Format::bf16);
  if (name == "e4m3") return by_tensor(Format::e4m3);
  if (name == "e5m2") return by_tensor(Format::e5m2);
  if (name == "hif8") return plain(Format::hif8);
  if (name.starts_with("mxfp8e5m2")) return blocks(mxfp8e5m2, rule);
  if (name.starts_with("mxfp8")) return blocks(mxfp8, rule);
  if (name.starts_with("mxfp6e2m3")) return blocks(mxfp6e2m3, rule);
  if (name.starts_with("mxfp6e3m2")) return blocks(mxfp6e3m2, rule);
  if (name.starts_with("mxint8")) return blocks(mxint8, rule);
  return name.starts_with("mxfp4") ? blocks(mxfp4, rule) : blocks(nvfp4, rule);
}

TEST(Fidelity, TheSamplesArePythons) {
  PythonRandom r(1234);
  EXPECT_EQ(r.uniform(), 0.9664535356921388) << "random.Random(1234).random()";
}

TEST(Fidelity, NoiseAndUnderflowAreThoseOfTheReference) {
  const Samples s = testing_support::samples();
  for (const Figures& f : kFigures) {
    const Values* inputs[]{&s.normal, &s.outliers, &s.lognormal};
    for (std::size_t n = 0; n < 3; ++n) {
      const Figure got = measure(coder_of(f.name), *inputs[n]);
      EXPECT_TRUE(testing_support::agree(got, f.of[n]))
          << f.name << ", data " << n << ": " << got.decibels << " dB, " << got.underflow << " %";
    }
  }
}

}  // namespace
}  // namespace lathe::numerics
