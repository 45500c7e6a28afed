#pragma once
// Whether a recipe can be used for a model's sizes.

#include "lathe/base/config.h"
#include "lathe/train/config.h"

namespace lathe::train {

/// Throws Error naming key and divisor where elements that share a scale, or a Hadamard transform,
/// do not divide what a product sums over, and naming an override that fits no parameter. Tokens
/// are left out: sequences are padded to numerics::time_multiple.
void check_fit(const ConfigFile& file, const RunConfig& c);

}  // namespace lathe::train
