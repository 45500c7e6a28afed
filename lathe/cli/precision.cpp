#include "lathe/cli/precision.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/cli/command.h"

namespace lathe::cli {

std::vector<std::string> recipe_names(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    std::string name = list.substr(begin, end - begin);
    name.erase(0, name.find_first_not_of(" \t"));
    name.erase(name.find_last_not_of(" \t") + 1);
    if (name.empty())
      throw Error("{}",
                  list.empty() ? "no recipes were given" : "--recipes has an empty name in it")
          .hint("for example --recipes bf16,fp32; see: lathe precision recipes");
    if (std::find(names.begin(), names.end(), name) != names.end())
      throw Error("--recipes names {} twice", name).hint("name every recipe once");
    names.push_back(std::move(name));
    begin = end + 1;
  }
  return names;
}

void add_precision(Commands& c) {
  c.group("precision", "find out which number formats a model can be trained in");
  add_precision_compare(c);
  add_precision_scan(c);
  add_precision_recipes(c);
}

}  // namespace lathe::cli
