#pragma once

#include "lathe/base/queue.h"
#include "lathe/kernels/kernels.h"
#include "lathe/numerics/recipe.h"

namespace lathe::train {

/// Operations per second that this machine reaches now, on all threads of `q`, in products of the
/// recipe's forward format whose operands stay in cache: what a share of the peak (MFU) is a share
/// of. The best of several tries, within about twice `seconds`.
double measure_peak(const kernels::Kernels& k, const numerics::Recipe& recipe, Queue& q,
                    double seconds = 0.3);

}  // namespace lathe::train
