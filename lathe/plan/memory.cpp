#include "lathe/plan/memory.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/units.h"
#include "lathe/base/view.h"
#include "lathe/numerics/recipe.h"
#include "lathe/plan/machine.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"

namespace lathe::plan {

namespace {

/// Divisors of the global batch up to the configured micro-batch, ascending.
std::vector<i64> micro_batches(const train::RunConfig& c) {
  const i64 n = c.train.global_batch;
  std::vector<i64> d;
  for (i64 i = 1; i <= n / i; ++i)
    if (n % i == 0)
      for (const i64 divisor : {i, n / i})
        if (divisor <= c.train.micro_batch) d.push_back(divisor);
  std::sort(d.begin(), d.end());
  return d;
}

i64 needed(const train::RunConfig& c) { return train::measure(c).total() + kProcessBytes; }

/// The largest of these micro-batches that fits: memory grows with the micro-batch.
std::optional<Fit> largest_fit_of(train::RunConfig c, const std::vector<i64>& sizes, i64 bytes) {
  std::optional<Fit> best;
  std::size_t low = 0, high = sizes.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    c.train.micro_batch = sizes[middle];
    const i64 need = needed(c);
    if (need <= bytes) {
      best = Fit{sizes[middle], c.train.recompute, need};
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return best;
}

}  // namespace

std::optional<Fit> largest_fit(const train::RunConfig& c, i64 bytes) {
  static constexpr std::array<const char*, 3> kStronger{"none", "attention", "block"};
  const std::vector<i64> sizes = micro_batches(c);
  train::RunConfig trial = c;
  const auto* from = std::find(kStronger.begin(), kStronger.end(), c.train.recompute);
  for (const auto* r = from; r != kStronger.end(); ++r) {
    trial.train.recompute = *r;
    if (const std::optional<Fit> fit = largest_fit_of(trial, sizes, bytes)) return fit;
  }
  return std::nullopt;
}

void check_memory(const train::RunConfig& c, const train::Footprint& f, const Memory& m) {
  const i64 have = m.usable(), need = f.total() + kProcessBytes;
  if (have < 0 || need <= have) return;
  Error e("not enough memory: this run needs {}, and {} can be had ({})", bytes_text(need),
          bytes_text(have), m.limited_by());
  if (const std::optional<Fit> fit = largest_fit(c, have)) {
    std::string set = fmt::format("--set train.micro_batch={}", fit->micro_batch);
    if (fit->recompute != c.train.recompute)
      set += fmt::format(" --set train.recompute={}", fit->recompute);
    throw e.hint("{} fits: {}, {}", set, bytes_text(fit->bytes),
                 fit->micro_batch == c.train.micro_batch || !numerics::spans_micro_batch(c.recipe)
                     ? c.optimizer.gradients == "fp32" ? "and the same results"
                                                       : "with sums of gradients rounded elsewhere"
                     : "but other results: scales of this recipe belong to a micro-batch");
  }
  train::RunConfig least = c;
  least.train.micro_batch = 1;
  least.train.recompute = "block";
  throw e.hint(
      "even train.micro_batch = 1 with train.recompute = \"block\" needs {}: use a smaller model, "
      "a "
      "shorter model.context or a larger machine",
      bytes_text(needed(least)));
}

void check_room(const std::string& what, i64 bytes, const Memory& m) {
  const i64 have = m.usable();
  if (have < 0 || bytes <= have) return;
  throw Error("not enough memory: {} needs {}, and {} can be had ({})", what, bytes_text(bytes),
              bytes_text(have), m.limited_by())
      .hint("end other programs, or use a larger machine");
}

}  // namespace lathe::plan
