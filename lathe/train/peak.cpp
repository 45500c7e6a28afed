#include "lathe/train/peak.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/peak.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/recipe.h"

namespace lathe::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kTries = 5;

double since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

/// Random values: matrix hardware draws more power for them than for zeros, and slows down.
void fill(const kernels::Kernels& k, Queue& q, const Tensor& x, const Tensor& random) {
  const Rng rng{.seed = 0, .draw = Draw::rounding, .stream = 0};
  for (i64 r = 0; r < x.rows; ++r)
    for (i64 c = 0; c < x.cols; ++c) {
      const double v = 2 * rng.uniform(static_cast<u64>(r * x.cols + c)) - 1;
      if (random.type == DType::f64)
        random.row<double>(r)[c] = v;
      else
        random.row<float>(r)[c] = static_cast<float>(v);
    }
  k.pointwise.convert(q, x, random);
}

/// The quickest run of the loop on each worker, while all of them run it.
double registers_peak(const kernels::PeakLoop& loop, Queue& q, double seconds) {
  std::vector<double> quickest(static_cast<std::size_t>(q.threads()),
                               std::numeric_limits<double>::infinity());
  for_pieces(q, q.threads(), [&](i64 piece, int) {
    double& mine = quickest[static_cast<std::size_t>(piece)];
    const Clock::time_point from = Clock::now();
    for (int tries = 0; tries < kTries || since(from) < seconds; ++tries) {
      const Clock::time_point t = Clock::now();
      loop.run();
      mine = std::min(mine, since(t));
    }
  });
  double sum = 0;
  for (const double t : quickest) sum += loop.operations / t;
  return sum;
}

/// The quickest product whose operands stay in cache.
double products_peak(const kernels::Kernels& k, const numerics::Recipe& recipe, Queue& q,
                     double seconds) {
  const numerics::Format format = recipe.linear.forward.a.format;
  const DType type = numerics::info(format).storage;
  double best = 0;
  // From small to large, so that a slow table ends early and a fast one reaches its stride.
  for (i64 n = 64; n <= 512; n *= 2) {
    const i64 k_dim = 2 * n;
    Arena memory("peak", (3 * n * k_dim + n * n) * size_of(DType::f64) + 4 * Arena::kAlign);
    const Tensor a = memory.take("a", type, n, k_dim), b = memory.take("b", type, n, k_dim);
    const Tensor c = memory.take("c", recipe.master, n, n);
    fill(k, q, a, memory.take("random", recipe.master, n, k_dim));
    k.pointwise.convert(q, b, a);
    const double flops = 2.0 * static_cast<double>(n * n * k_dim);
    const double share = n == 512 ? seconds : seconds / 8;
    double quickest = std::numeric_limits<double>::infinity();
    const Clock::time_point from = Clock::now();
    // Of several tries, since any one may be cut into by other processes.
    for (int tries = 0; tries < kTries || since(from) < share; ++tries) {
      const Clock::time_point t = Clock::now();
      k.gemm.product(q, c, {.data = a, .format = format}, {.data = b, .format = format}, {});
      quickest = std::min(quickest, since(t));
    }
    best = std::max(best, flops / quickest);
    if (8 * kTries * quickest > seconds) break;  // what the next size would take
  }
  return best;
}

}  // namespace

double measure_peak(const kernels::Kernels& k, const numerics::Recipe& recipe, Queue& q,
                    double seconds) {
  const numerics::Format format = recipe.linear.forward.a.format;
  const bool narrow = numerics::info(format).storage == DType::bf16;
  const kernels::PeakLoop& loop = narrow ? k.peak.bf16 : k.peak.f32;
  return loop.run && format != numerics::Format::f64 ? registers_peak(loop, q, seconds)
                                                     : products_peak(k, recipe, q, seconds);
}

}  // namespace lathe::train
