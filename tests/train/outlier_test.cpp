// What one outlier does to the steps that come after it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/kernels/lanes.h"
#include "lathe/train/config.h"
#include "lathe/train/step.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/planted_outlier.h"
#include "tests/train/tiny_run.h"

namespace lathe::train {
namespace {

constexpr i64 kStep = 20;

constexpr const char* kLayer = "layers.0.mlp.down";

RunConfig run_of(const std::string& recipe) {
  return tiny_run("unused", {"train.recipe=" + recipe, "train.steps=40"});
}

std::vector<double> losses(const std::string& recipe, float outlier) {
  return losses_with(run_of(recipe), {kStep, kLayer, outlier});
}

/// Elements of a weight, as products read it, that are 0.
i64 zeros_of(const ConstTensor& x) {
  i64 n = 0;
  for (i64 r = 0; r < x.rows; ++r)
    n += std::count_if(x.row<bf16>(r), x.row<bf16>(r) + x.cols,
                       [](bf16 w) { return kernels::to_float(w) == 0; });
  return n;
}

double mean_after(const std::vector<double>& losses) {
  const auto first = losses.begin() + kStep;
  return std::accumulate(first, losses.end(), 0.0) / static_cast<double>(losses.end() - first);
}

TEST(AnOutlier, IsForgottenByCurrentScaling) {
  const std::vector<double> with = losses("fp8-hybrid-current", 0x1p24F);
  std::vector<double> without = losses("fp8-hybrid-current", 0);
  EXPECT_NE(with[kStep - 1], without[kStep - 1]);
  without[kStep - 1] = with[kStep - 1];
  EXPECT_EQ(with, without);
}

TEST(AnOutlier, HarmsTheStepsAfterItUnderDelayedScaling) {
  const std::vector<double> with = losses("fp8-hybrid-delayed", 0x1p24F);
  const std::vector<double> without = losses("fp8-hybrid-delayed", 0);
  for (std::size_t n = kStep; n < with.size(); ++n) EXPECT_NE(with[n], without[n]) << n;
  EXPECT_GT(mean_after(with), mean_after(without));
}

TEST(AnOutlier, IsForgottenByDelayedScalingWhenItsHistoryIs) {
  const testing_support::TemporaryFolder folder;
  const std::string recipe = folder / "short.toml";
  write_atomically(recipe, "base = \"fp8-hybrid-delayed\"\n[delayed]\nhistory = 4\n");
  // As the step after it reads the layer's weights.
  std::vector<i64> zeros;
  losses_with(run_of(recipe), {kStep, kLayer, 0x1p24F},
              [&](i64, Trainer& t) { zeros.push_back(zeros_of(t.params().at(kLayer).work.data)); });
  const i64 all = 32 * 48;
  // Two refreshes see the outlier, that of its step and that which ends it: 4 + 1.
  EXPECT_EQ(std::vector(zeros.begin() + kStep - 2, zeros.begin() + kStep + 6),
            (std::vector<i64>{0, all, all, all, all, all, 0, 0}));
}

}  // namespace
}  // namespace lathe::train
