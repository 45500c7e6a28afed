#pragma once
// Whether a recipe can be used for a model's sizes.

#include <string>

#include "lathe/base/config.h"
#include "lathe/train/config.h"

namespace lathe::train {

/// Whether train.recipe names a file rather than one of the recipes.
bool is_recipe_file(const std::string& recipe);

/// Where that file is: a path in the run file starts from there, one on the command line from the
/// current folder.
std::string recipe_path(const ConfigFile& file, const std::string& recipe);

/// Throws Error naming key and divisor where elements that share a scale, or a Hadamard transform,
/// do not divide what a product sums over, and naming an override that fits no parameter. Tokens
/// are left out: sequences are padded to numerics::time_multiple.
void check_fit(const ConfigFile& file, const RunConfig& c);

}  // namespace lathe::train
