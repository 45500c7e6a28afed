#include "lathe/train/peak.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "lathe/base/queue.h"
#include "lathe/kernels/kernels.h"
#include "lathe/numerics/recipe.h"

namespace lathe::train {
namespace {

TEST(Peak, EveryUsableTableHasOneForEveryRecipeItRuns) {
  Queue q(2);
  for (const kernels::Candidate& c : kernels::candidates()) {
    if (!c.why_not.empty()) continue;
    for (const char* name : {"fp32", "bf16"}) {
      const double peak = measure_peak(*c.table, numerics::recipe(name), q, 0.01);
      EXPECT_TRUE(std::isfinite(peak) && peak > 0) << c.table->name << ", " << name;
    }
  }
}

TEST(Peak, TablesWithVectorRegistersSayWhichInstructionTheirProductsAreMadeOf) {
  for (const kernels::Candidate& c : kernels::candidates()) {
    if (c.table == &kernels::ref()) continue;
    EXPECT_GT(c.table->peak.f32.operations, 0) << c.table->name;
    EXPECT_GT(c.table->peak.bf16.operations, 0) << c.table->name;
    EXPECT_NE(std::string(c.table->peak.bf16.instruction), "") << c.table->name;
  }
}

}  // namespace
}  // namespace lathe::train
