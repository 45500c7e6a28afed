#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "lathe/cli/command.h"
#include "lathe/cli/precision.h"
#include "lathe/numerics/recipe.h"

namespace lathe::cli {

namespace {

struct RecipesOptions {
  bool json = false;
};

void declare(CLI::App& a, RecipesOptions& o) {
  a.add_flag("--json", o.json, "print JSON, for programs");
}

int run(const RecipesOptions& o) {
  if (o.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const numerics::Recipe& r : numerics::recipes())
      list.push_back({{"name", r.name}, {"about", r.about}, {"source", r.source}});
    fmt::print("{}\n", list.dump(2));
    return 0;
  }
  std::size_t widest = 0;
  for (const numerics::Recipe& r : numerics::recipes()) widest = std::max(widest, r.name.size());
  for (const numerics::Recipe& r : numerics::recipes()) {
    fmt::print("{:<{}}  {}\n", r.name, widest, r.about);
    if (!r.source.empty()) fmt::print("{:<{}}  from {}\n", "", widest, r.source);
  }
  return 0;
}

}  // namespace

void add_precision_recipes(Commands& c) {
  c.add<RecipesOptions>("precision recipes",
                        "list the recipes, what each does and who published it",
                        "lathe precision recipes\n"
                        "lathe precision recipes --json\n",
                        declare, run);
}

}  // namespace lathe::cli
