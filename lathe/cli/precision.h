#pragma once
// The commands below `lathe precision`, each in its own file.

#include "lathe/cli/command.h"

namespace lathe::cli {

void add_precision_compare(Commands& c);
void add_precision_recipes(Commands& c);
void add_precision_scan(Commands& c);

}  // namespace lathe::cli
