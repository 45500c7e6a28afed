#pragma once
// The commands below `lathe precision`, each in its own file.

#include <string>
#include <vector>

#include "lathe/cli/command.h"

namespace lathe::cli {

/// The words between the commas of --recipes. Throws Error for none, an empty one, or one that
/// stands there twice.
std::vector<std::string> recipe_names(const std::string& list);

void add_precision_compare(Commands& c);
void add_precision_recipes(Commands& c);
void add_precision_scan(Commands& c);

}  // namespace lathe::cli
