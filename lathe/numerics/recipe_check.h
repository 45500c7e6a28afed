#pragma once
// What a recipe may not ask for.

#include <functional>
#include <string>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/recipe.h"

namespace lathe::numerics {

/// Gives an error about keys ("grad_w.dy.hadamard") the place of the first that the file has.
using Locate = std::function<Error(const std::vector<std::string>& keys, Error e)>;

/// Throws Error when an operand's parts do not fit one another: a scaling that its format cannot
/// take, a rounding it has none of, a transform shorter than its blocks, head-room past 1.
void check(const Encoding& e, const std::string& key, const Locate& at);

/// The same for all operands of a recipe, and for what lies between them: operands of one product
/// in different storage types or after different transforms, FP64 beside other formats, an
/// override that never holds.
void check(const Recipe& r, const Locate& at);

}  // namespace lathe::numerics
