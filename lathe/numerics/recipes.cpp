// The named recipes. Each says who published it; where a paper leaves a choice open, ours is in
// docs/formats.md.

#include <span>
#include <string>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/recipe.h"

namespace lathe::numerics {

namespace {

Recipe plain(std::string name, std::string about, Format f, DType activation, DType wide) {
  Recipe r;
  r.name = std::move(name);
  r.about = std::move(about);
  const Encoding e{.format = f};
  r.linear = {{e, e}, {e, e}, {e, e}};
  r.scores = r.values = {e, e};
  r.activation = activation;
  r.residual = r.master = wide;
  return r;
}

std::vector<Recipe> all() {
  return {
      plain("fp32", "everything in FP32", Format::f32, DType::f32, DType::f32),
      plain("bf16", "BF16 operands, FP32 sums, masters, gradients, moments and residual stream",
            Format::bf16, DType::bf16, DType::f32),
      plain("fp64", "everything in FP64: a yardstick; kernels = \"ref\" only", Format::f64,
            DType::f64, DType::f64),
  };
}

}  // namespace

std::span<const Recipe> recipes() {
  static const std::vector<Recipe> kRecipes = all();
  return kRecipes;
}

}  // namespace lathe::numerics
