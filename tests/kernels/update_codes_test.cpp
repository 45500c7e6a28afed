// Codes of moments: the maps, the expansion, and how near they come.
#include "lathe/kernels/update_codes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/kernels/update.h"
#include "lathe/kernels/update_tables.h"
#include "lathe/kernels/words.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/format.h"
#include "tests/kernels/row_case.h"
#include "tests/kernels/update_case.h"

namespace lathe::kernels {
namespace {

using Floats = Plain<float>;

u32 searched(const CodeTable& t, float x) {
  return PlainWords::search(t.tree, Floats::broadcast(x)).v[0];
}

/// Both moments of these gradients as they are stored.
StoredParameter stored(MomentKind kind, const std::vector<double>& gradients,
                       const Kernels& k = select("auto")) {
  Queue q(1);
  StoredParameter p(1, static_cast<i64>(gradients.size()), kind);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    p.grad.set(0, static_cast<i64>(i), gradients[i]);
  p.step(k, q, kStoreGradient);
  return p;
}

std::vector<double> normal_values(i64 count, double decades) {
  std::vector<double> x;
  const Rng rng{4, Draw::sample, 1};
  for (i64 i = 0; i < count; ++i) {
    const auto at = static_cast<u64>(i);
    x.push_back(rng.normal(2 * at) * std::pow(10, -decades * rng.uniform(2 * at + 1)));
  }
  return x;
}

TEST(DynamicMap, HasThePublishedValues) {
  const auto is = [](float got, double want) { EXPECT_EQ(got, static_cast<float>(want)); };
  is(kSignedMap.value[127], 0);
  is(kSignedMap.value[128], 5.5e-7);
  is(kSignedMap.value[126], -5.5e-7);
  is(kSignedMap.value[200], 0.23359375);
  is(kSignedMap.value[254], 0.99296875);
  is(kSignedMap.value[255], 1);
  is(kSignedMap.value[0], -0.99296875);
  is(kUnsignedMap.value[0], 0);
  is(kUnsignedMap.value[1], 3.25e-7);
  is(kUnsignedMap.value[127], 0.103515625);
  is(kUnsignedMap.value[255], 1);
  for (const CodeTable* t : {&kSignedMap, &kUnsignedMap})
    for (int c = 0; c < 255; ++c) {
      EXPECT_LT(t->value[c], t->value[c + 1]);
    }
}

TEST(DynamicMap, GivesEveryValueItsOwnCodeAndATieTheLarger) {
  for (const CodeTable* t : {&kSignedMap, &kUnsignedMap})
    for (u32 c = 0; c < 256; ++c) {
      EXPECT_EQ(searched(*t, t->value[c]), c);
      if (c == 255) continue;
      const float tie = (t->value[c] + t->value[c + 1]) / 2, below = std::nextafter(tie, -2.0F);
      EXPECT_EQ(searched(*t, tie), c + 1);
      EXPECT_EQ(searched(*t, below), c);
    }
}

TEST(E4m3Codes, AreThoseOfTheFormat) {
  using numerics::Format;
  const numerics::Cast cast = numerics::usual_cast(Format::e4m3);
  for (u32 c = 0; c < 256; ++c) {
    const bool nan = (c & 0x7f) == 0x7f;
    EXPECT_EQ(std::fabs(kE4m3.value[c]), nan ? 448 : std::fabs(numerics::decode(Format::e4m3, c)));
    if ((c & 0x7f) >= 126) continue;
    const float middle = (std::fabs(kE4m3.value[c]) + std::fabs(kE4m3.value[c + 1])) / 2;
    for (const float x : {std::nextafter(middle, 0.0F), middle, std::nextafter(middle, 999.0F)})
      EXPECT_EQ(searched(kE4m3, x), numerics::encode(Format::e4m3, x, cast)) << x;
  }
}

TEST(DynamicMoments, AreTheNearestValuesOfTheirBlocksMap) {
  std::vector<double> x = normal_values(700, 7);
  x[3] = 0;
  StoredParameter p = stored(MomentKind::dynamic, x);
  for (i64 i = 0; i < 700; ++i) {
    const i64 block = i / 256 * 256, end = std::min<i64>(700, block + 256);
    float largest = 0;
    for (i64 j = block; j < end; ++j)
      largest = std::max(largest, std::fabs(static_cast<float>(p.grad.at(0, j))));
    EXPECT_EQ(p.m.scales.at(0, i / 256), largest);
    const float y = static_cast<float>(p.grad.at(0, i)) / largest;
    const double error = std::fabs(double{kSignedMap.value[p.m.code(i)]} - y);
    for (const float other : kSignedMap.value) EXPECT_LE(error, std::fabs(double{other} - y));
    const auto v = static_cast<float>(p.v.scales.at(0, i / 256));
    const float g = static_cast<float>(p.grad.at(0, i)), square = g * g / v;
    if (square < kUnsignedMap.value[1]) continue;
    const double off = std::fabs(double{kUnsignedMap.value[p.v.code(i)]} - square);
    for (const float other : kUnsignedMap.value) EXPECT_LE(off, std::fabs(double{other} - square));
  }
}

TEST(Expansion, HasThePublishedExponents) {
  const auto k = [](float ratio) { return expansion_of<Floats>(ratio * 0.25F, 0.25F).k; };
  EXPECT_EQ(k(1e1F), 5.0F);
  EXPECT_EQ(k(1e2F), 2.5F);
  EXPECT_EQ(k(1e3F), 1.625F);
  EXPECT_EQ(k(1e4F), 1.25F);
  EXPECT_EQ(k(1e6F), 0.8125F);
  EXPECT_EQ(k(1e8F), 0.625F);
  EXPECT_EQ(k(1), 1024) << "of all equal";
  EXPECT_EQ(k(1e37F), 0.25F) << "no less";
}

/// In the expanded domain a value is off by at most half the gap of E4M3 about it; 2^-10 more is
/// for logarithms in f32, of at most 88 by magnitude and off by two ulps, times k <= 16 sixteenths
/// per binade of range.
void expect_near(StoredMoment& m, i64 i, double x) {
  const i64 group = i / kMomentGroup;
  const double scale = m.scales.at(group, 0), k = m.scales.at(group, 1),
               centre = m.scales.at(group, 2);
  const double y = std::pow(std::fabs(x) / centre, k) / scale;
  const u8 code = m.code(i) & 0x7f;
  const double below = code == 0 ? 0 : kE4m3.value[code - 1], at = kE4m3.value[code],
               above = code >= 126 ? at : kE4m3.value[code + 1];
  EXPECT_GE(y * (1 + 0x1p-10), (below + at) / 2) << i << " " << x;
  EXPECT_LE(y * (1 - 0x1p-10), code >= 126 ? 464 : (above + at) / 2) << i << " " << x;
  EXPECT_EQ(std::signbit(kE4m3.value[m.code(i)]), x < 0);
}

TEST(ExpandedMoments, AreTheNearestCodesAfterExpansion) {
  for (const double decades : {0.01, 0.5, 2.0, 6.0}) {
    const std::vector<double> x = normal_values(300, decades);
    StoredParameter p = stored(MomentKind::expanded, x);
    for (i64 i = 0; i < 300; ++i) {
      const auto g = static_cast<float>(p.grad.at(0, i));
      expect_near(p.m, i, g);
      expect_near(p.v, i, g * g);
    }
  }
}

TEST(ExpandedMoments, LoseNoneButZeros) {
  std::vector<double> x = normal_values(128, 12);
  StoredParameter p = stored(MomentKind::expanded, x);
  for (i64 i = 0; i < 128; ++i) {
    EXPECT_NE(p.m.decoded(i, kSignedMap), 0) << i;
    EXPECT_NE(p.v.decoded(i, kUnsignedMap), 0) << i;
  }
}

TEST(ExpandedMoments, DoNotCareWhereAZeroIs) {
  for (const Candidate& t : candidates()) {
    if (!t.why_not.empty()) continue;
    std::vector<double> all = normal_values(128, 2);
    std::sort(all.begin(), all.end());
    all[64] = 0;  // in the middle: neither the largest nor, being zero, the smallest
    std::vector<double> others = all;
    others.erase(others.begin() + 64);
    StoredParameter without = stored(MomentKind::expanded, others, *t.table);
    for (std::size_t at = 0; at < 128; ++at) {
      std::vector<double> x = others;
      x.insert(x.begin() + static_cast<std::ptrdiff_t>(at), 0.0);
      StoredParameter p = stored(MomentKind::expanded, x, *t.table);
      EXPECT_TRUE(p.m.scales == without.m.scales) << at;
      EXPECT_TRUE(p.v.scales == without.v.scales) << at;
      for (i64 i = 0; i < 128; ++i) {
        const auto place = static_cast<std::size_t>(i);
        const bool zero = place == at;
        const i64 same = i - (place > at ? 1 : 0);
        EXPECT_EQ(p.m.code(i), zero ? 0 : without.m.code(same)) << at << " " << i;
        EXPECT_EQ(p.v.code(i), zero ? 0 : without.v.code(same)) << at << " " << i;
      }
    }
  }
}

/// What the next step reads: with beta 1 a gradient counts nothing, and moments stay as they are.
double read_back(StoredParameter& p, i64 i, const Kernels& k) {
  Queue q(1);
  StoredParameter copy(1, p.w.cols(), MomentKind::plain);
  AdamW keep = kStoreGradient;
  keep.beta1 = keep.beta2 = 1;
  p.grad.fill_with(1);
  k.update.adamw(q, p.w.view(), p.m.view(), copy.v.view(), p.grad.view(), keep, {});
  return p.m.decoded(i, kSignedMap);
}

TEST(CodedMoments, OfEqualAndOfZeroGroupsAreWhatTheyWere) {
  for (const Candidate& t : candidates()) {
    if (!t.why_not.empty()) continue;
    for (const MomentKind kind : {MomentKind::dynamic, MomentKind::expanded})
      for (const double value : {0.0, 1.0, 3e-5, 7.7e-15, 2e15})
        for (const std::size_t count : {1, 5, 128, 200, 256}) {
          StoredParameter p = stored(kind, std::vector<double>(count, value), *t.table);
          // Two square roots, a division and a logarithm, all within 4 ulps: k or 1 / k of them
          // where magnitudes are equal cancels against itself.
          const double bound = value * 8 * 0x1p-23;
          const i64 last = static_cast<i64>(count) - 1;
          EXPECT_NEAR(p.m.decoded(last, kSignedMap), value, bound) << count;
          EXPECT_NEAR(p.v.decoded(0, kUnsignedMap), value * value, value * bound * 2) << count;
          EXPECT_NEAR(read_back(p, last, *t.table), value, 2 * bound) << count;
        }
  }
}

/// What the next step reads of v, from what it does to weights of 0 under a first moment of 1: w
/// becomes -1 / sqrt(v).
std::vector<double> read_seconds(StoredParameter& p, const Kernels& k) {
  Queue q(1);
  StoredParameter other(1, p.w.cols(), MomentKind::plain);
  other.m.values.fill_with(1);
  other.w.fill_with(0);
  other.grad.fill_with(0);
  AdamW keep = kStoreGradient;
  keep.beta1 = keep.beta2 = keep.lr = 1;
  keep.eps = 0;
  k.update.adamw(q, other.w.view(), other.m.view(), p.v.view(), other.grad.view(), keep, {});
  std::vector<double> all;
  for (i64 i = 0; i < p.w.cols(); ++i) all.push_back(1 / (other.w.at(0, i) * other.w.at(0, i)));
  return all;
}

// The smallest that is positive beside the largest, in blocks from the largest floats down to it.
TEST(CodedMoments, OfSecondsThatArePositiveNeverBecomeZero) {
  constexpr double kLeast = 1.085e-19;  // its square is hardly above the smallest normal float
  for (const Candidate& t : candidates()) {
    if (!t.why_not.empty()) continue;
    for (const MomentKind kind : {MomentKind::dynamic, MomentKind::expanded})
      for (const double largest : {1e19, 2.0, 1e-10, 1.9e-16, 1e-17, 3e-19, kLeast}) {
        SCOPED_TRACE(
            fmt::format("{} kind {} largest {}", t.table->name, static_cast<int>(kind), largest));
        StoredParameter p = stored(kind, {largest, 0, kLeast, 1.5e-19, -1.2e-19}, *t.table);
        for (const i64 i : {0, 2, 3, 4}) EXPECT_NE(p.v.code(i), 0) << i;
        EXPECT_EQ(p.v.code(1), 0);
        const std::vector<double> v = read_seconds(p, *t.table);
        for (const std::size_t i : {0, 2, 3, 4})
          EXPECT_GE(v[i], 0.9 * std::numeric_limits<float>::min()) << i;
        EXPECT_EQ(v[1], 0);
      }
  }
}

TEST(CodedMoments, OfAnyMagnitudeStayFinite) {
  for (const Candidate& t : candidates()) {
    if (!t.why_not.empty()) continue;
    for (const MomentKind kind : {MomentKind::dynamic, MomentKind::expanded}) {
      std::vector<double> x = normal_values(256, 30);
      x[0] = 3e38;  // its square is infinite
      x[1] = -1.2e-38;
      x[255] = std::numeric_limits<float>::denorm_min();
      StoredParameter p = stored(kind, x, *t.table);
      for (i64 i = 0; i < 256; ++i) {
        EXPECT_TRUE(std::isfinite(p.m.decoded(i, kSignedMap))) << t.table->name << i;
        EXPECT_GE(p.v.decoded(i, kUnsignedMap), 0) << t.table->name << i;
      }
      EXPECT_TRUE(std::isfinite(read_back(p, 0, *t.table)));
    }
  }
}

}  // namespace
}  // namespace lathe::kernels
