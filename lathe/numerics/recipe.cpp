#include "lathe/numerics/recipe.h"

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/numerics/format.h"

namespace lathe::numerics {

namespace {

constexpr Recipe plain(std::string_view name, std::string_view about, Format f, DType activation,
                       DType wide) {
  const Recipe::Product p{{f}, {f}};
  return {name, about, p, p, p, p, activation, wide, wide};
}

constexpr std::array kRecipes{
    plain("fp32", "everything in FP32", Format::f32, DType::f32, DType::f32),
    plain("bf16", "BF16 operands, FP32 sums, masters, gradients, moments and residual stream",
          Format::bf16, DType::bf16, DType::f32),
    plain("fp64", "everything in FP64: a yardstick; kernels = \"ref\" only", Format::f64,
          DType::f64, DType::f64),
};

}  // namespace

std::span<const Recipe> recipes() { return kRecipes; }

const Recipe& recipe(const std::string& name) {
  std::vector<std::string> known;
  for (const Recipe& r : kRecipes) {
    if (r.name == name) return r;
    known.emplace_back(r.name);
  }
  const std::string near = nearest(name, known);
  throw Error("there is no recipe \"{}\"", name)
      .hint("{}known: {}", near.empty() ? "" : fmt::format("did you mean \"{}\"? ", near),
            fmt::join(known, ", "));
}

}  // namespace lathe::numerics
