#pragma once

#include "lathe/base/queue.h"
#include "lathe/kernels/kernels.h"
#include "lathe/numerics/recipe.h"

namespace lathe::train {

/// Operations per second that this machine reaches now, on all threads of `q` together, in the
/// multiply-adds that the recipe's products are made of, operands in registers: what a share of the
/// peak (MFU) is a share of. Each thread counts the quickest of many runs of some ten microseconds,
/// which other processes cannot all disturb. A table without such a loop (ref) is measured by its
/// quickest product whose operands stay in cache. Takes about `seconds`.
double measure_peak(const kernels::Kernels& k, const numerics::Recipe& recipe, Queue& q,
                    double seconds = 0.3);

}  // namespace lathe::train
