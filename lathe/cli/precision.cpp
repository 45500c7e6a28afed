#include "lathe/cli/precision.h"

#include "lathe/cli/command.h"

namespace lathe::cli {

void add_precision(Commands& c) {
  c.group("precision", "find out which number formats a model can be trained in");
  add_precision_compare(c);
  add_precision_scan(c);
  add_precision_recipes(c);
}

}  // namespace lathe::cli
