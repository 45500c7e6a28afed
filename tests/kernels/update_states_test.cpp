// Weights, gradients and moments in less than FP32.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <tuple>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/encode.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/update.h"
#include "lathe/kernels/update_tables.h"
#include "tests/kernels/row_case.h"
#include "tests/kernels/update_case.h"

namespace lathe::kernels {
namespace {

/// Three steps, so that what one wrote the next reads.
Run three_steps(i64 R, i64 C, MomentKind kind, DType weights, DType gradients) {
  return [=](const Kernels& k, Queue& q) {
    StoredParameter p(R, C, kind, weights, gradients);
    p.w.fill(1);
    for (i64 n = 1; n <= 3; ++n) {
      p.grad.fill(static_cast<u64>(1 + n), std::pow(10, -n));
      for (i64 i = 0; i < R * C; i += 5) p.grad.set(i / C, i % C, 0);
      p.step(k, q, usual_step(n), {.seed = 5, .stream = static_cast<u64>(n) << 40});
    }
    return p.outputs();
  };
}

TEST(UpdateStates, GiveTheSameBitsInEveryTable) {
  for (const MomentKind kind : kKinds)
    for (const DType w : {kF32, kBf16})
      for (const DType g : {kF32, kBf16}) {
        for (i64 C = 1; C <= kLongest; C += 3)
          expect_same_in_every_table(three_steps(1, C, kind, w, g));
        for (const i64 C : {127, 128, 129, 255, 257, 1000})
          expect_same_in_every_table(three_steps(3, C, kind, w, g));
      }
}

TEST(UpdateStates, GiveTheSameBitsForAnyNumberOfThreads) {
  for (const MomentKind kind : kKinds)
    expect_same_for_any_threads(three_steps(3, 9001, kind, kBf16, kBf16));
}

TEST(UpdateStates, DoNotDependOnTheParametersShape) {
  Queue q(1);
  for (const MomentKind kind : kKinds) {
    const std::vector<Matrix> tall = three_steps(40, 25, kind, kBf16, kF32)(ref(), q);
    const std::vector<Matrix> flat = three_steps(1, 1000, kind, kBf16, kF32)(ref(), q);
    for (i64 i = 0; i < 1000; ++i)
      ASSERT_EQ(tall[0].at(i / 25, i % 25), flat[0].at(0, i)) << static_cast<int>(kind) << i;
  }
}

/// Sixteen bits of element e of a stream, by the letter of Draws.
u32 drawn(u64 seed, u64 stream, i64 e) {
  const i64 b = e / 128, i = e % 128;
  const auto words = Rng{seed, Draw::rounding, stream}.bits(static_cast<u64>(16 * b + i % 16));
  const u32 word = words[static_cast<std::size_t>(i / 32)];
  return i / 16 % 2 == 0 ? word & 0xffff : word >> 16;
}

TEST(UpdateStates, RoundStochasticallyByTheBitsOfTheirElement) {
  Queue q(1);
  constexpr i64 kCount = 700;
  const Draws d{.seed = 77, .stream = 0x123456789abcdef0};
  for (const Candidate& t : candidates()) {
    if (!t.why_not.empty()) continue;
    StoredParameter p(1, kCount, MomentKind::bf16, kBf16);
    p.grad.fill(3);
    p.step(*t.table, q, kStoreGradient, d);
    for (i64 i = 0; i < kCount; ++i) {
      const auto g = static_cast<float>(p.grad.at(0, i));
      for (const auto& [moment, x, stream] :
           {std::tuple{&p.m, g, d.stream + 1}, std::tuple{&p.v, g * g, d.stream + 2}}) {
        const u32 sum = std::bit_cast<u32>(x) + drawn(d.seed, stream, i);
        EXPECT_EQ(moment->values.at(0, i), std::bit_cast<float>(sum & 0xffff0000u)) << i;
      }
    }
  }
}

/// The mean of n draws of 0 or 1 with probability p lies within 4 sqrt(p (1 - p) / n) of p, but for
/// one time in 16,000; these draws are always the same ones.
TEST(UpdateStates, Bf16WeightsAreUnbiased) {
  Queue q(1);
  constexpr i64 kCount = i64{1} << 16;
  for (int place = 0; place < 16; ++place) {
    // An update of less than half a step of BF16, lost for good if rounded to nearest.
    const double fraction = (place + 0.37) / 16, lr = fraction * 0x1p-7;
    StoredParameter p(1, kCount, MomentKind::plain, kBf16);
    p.w.fill_with(1);
    p.grad.fill_with(-1);
    AdamW a = kStoreGradient;
    a.lr = lr;
    a.eps = 0;
    p.step(select("auto"), q, a, {.seed = 9, .stream = static_cast<u64>(place)});
    i64 up = 0;
    for (i64 i = 0; i < kCount; ++i) {
      const double w = p.w.at(0, i);
      ASSERT_TRUE(w == 1 || w == 1 + 0x1p-7) << w;
      up += w > 1;
    }
    const auto n = static_cast<double>(kCount);
    EXPECT_NEAR(static_cast<double>(up) / n, fraction,
                4 * std::sqrt(fraction * (1 - fraction) / n) + 0x1p-16)
        << place;
  }
}

TEST(UpdateStates, ReplicasAreEqualAndStepsDiffer) {
  Queue q(1);
  const auto weights = [&](u64 stream) {
    StoredParameter p(4, 500, MomentKind::bf16, kBf16, kBf16);
    p.w.fill(1);
    p.grad.fill(2);
    p.step(select("auto"), q, usual_step(1), {.seed = 1, .stream = stream});
    return p.w;
  };
  EXPECT_TRUE(weights(8) == weights(8));
  EXPECT_FALSE(weights(8) == weights(9));
}

TEST(UpdateStates, LeaveWhatIsNotFiniteNotFinite) {
  Queue q(1);
  for (const Candidate& t : candidates()) {
    if (!t.why_not.empty()) continue;
    StoredParameter p(1, 20, MomentKind::bf16, kBf16);
    const double inf = std::numeric_limits<double>::infinity();
    p.w.set(0, 0, inf);
    p.w.set(0, 1, -inf);
    p.w.set(0, 2, std::nan(""));
    p.step(*t.table, q, usual_step(1), {.seed = 3});
    for (i64 i = 0; i < 3; ++i) EXPECT_FALSE(std::isfinite(p.w.at(0, i))) << t.table->name << i;
  }
}

/// Gradients of seven decades in one block; of element 7 none after the first 20 steps.
void fill_gradients(Matrix& grad, i64 step) {
  const Rng rng{1, Draw::sample, static_cast<u64>(step)};
  for (i64 i = 0; i < grad.cols(); ++i) {
    const double g = std::pow(10, -static_cast<double>(i % 8)) * rng.normal(static_cast<u64>(i));
    grad.set(0, i, i == 7 && step > 20 ? 0 : 1e-3 * g);
  }
}

/// Where element 7 has gone since its gradient ended, in learning rates; no weight may ever move by
/// more than ten of them in a step.
double drift_without_gradient(MomentKind kind) {
  constexpr double kLr = 1e-3;
  Queue q(1);
  StoredParameter p(1, 256, kind);
  double at_end = 0;
  for (i64 n = 1; n <= 1020; ++n) {
    const Matrix before = p.w;
    fill_gradients(p.grad, n);
    p.step(select("auto"), q, usual_step(n, kLr), {.seed = 2, .stream = static_cast<u64>(n)});
    for (i64 i = 0; i < 256; ++i)
      EXPECT_LE(std::fabs(p.w.at(0, i) - before.at(0, i)), 10 * kLr) << n << " " << i;
    if (n == 20) at_end = p.w.at(0, 7);
  }
  return std::fabs(p.w.at(0, 7) - at_end) / kLr;
}

// m falls by at least a tenth a step, as it must. v, whose code may go one step too low, falls
// at most twice as fast as its twentieth: the sum of what is left is at most twice that of FP32.
TEST(UpdateStates, AWeightWithoutGradientComesToRest) {
  const double plain = drift_without_gradient(MomentKind::plain);
  for (const MomentKind kind : {MomentKind::bf16, MomentKind::dynamic, MomentKind::expanded})
    EXPECT_LE(drift_without_gradient(kind), 2 * (plain + 1)) << static_cast<int>(kind);
}

TEST(UpdateStates, AFirstMomentWithoutGradientBecomesZero) {
  Queue q(1);
  for (const MomentKind kind : {MomentKind::dynamic, MomentKind::expanded})
    for (const Candidate& t : candidates()) {
      if (!t.why_not.empty()) continue;
      StoredParameter p(1, 256, kind);
      for (i64 n = 1; n <= 1020; ++n) {
        fill_gradients(p.grad, n);
        p.step(*t.table, q, usual_step(n));
      }
      EXPECT_EQ(p.m.decoded(7, kSignedMap), 0) << t.table->name << static_cast<int>(kind);
      EXPECT_GT(p.v.decoded(7, kUnsignedMap), 0) << t.table->name << static_cast<int>(kind);
    }
}

}  // namespace
}  // namespace lathe::kernels
