#include "lathe/numerics/format.h"

#include <string>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/error.h"

namespace lathe::numerics {

Format format(const std::string& name) {
  std::vector<std::string> known;
  for (const FormatInfo& i : kFormats) {
    if (i.format == Format::f64) continue;
    if (i.name == name) return i.format;
    known.emplace_back(i.name);
  }
  if (name == "hif4") return Format::s1p2;
  known.emplace_back("hif4");
  const std::string near = nearest(name, known);
  throw Error("there is no format \"{}\"", name)
      .hint("{}known: {}", near.empty() ? "" : fmt::format("did you mean \"{}\"? ", near),
            fmt::join(known, ", "));
}

}  // namespace lathe::numerics
