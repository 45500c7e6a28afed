#pragma once
// Recipes as text: how everything in them is called, and how they are printed. Reading is in
// recipe_file.h; docs/recipes.md describes the files.

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/recipe.h"

namespace lathe::numerics {

// In the order of the enums.
inline constexpr std::array<std::string_view, 4> kTieNames{"even", "away", "stochastic", "hybrid"};
inline constexpr std::array<std::string_view, 4> kMxRuleNames{"floor", "ceil", "even", "round_up"};
inline constexpr std::array<std::string_view, 9> kScalingNames{
    "none", "current", "delayed", "shift", "row", "tile", "mx", "nvfp4", "hif4"};

inline std::string_view name_of(Tie t) { return kTieNames[static_cast<std::size_t>(t)]; }
inline std::string_view name_of(MxRule r) { return kMxRuleNames[static_cast<std::size_t>(r)]; }
inline std::string_view name_of(Scaling s) { return kScalingNames[static_cast<std::size_t>(s)]; }
/// "hif4" for its element.
std::string_view name_of(Format f);
/// "bf16", "fp32" or "fp64".
std::string_view name_of(DType t);

/// A name in `format = "…"` and what it stands for.
struct NamedEncoding {
  std::string_view name;
  Encoding encoding;
  bool any_scaling;  // the scaling is only what is meant where none is written
};
/// Elements first, then the block formats by their usual names.
const std::vector<NamedEncoding>& named_encodings();
/// Null when there is none of that name. Never null for name_of(a format that is an element).
const NamedEncoding* find_encoding(std::string_view name);

/// TOML that read_recipe makes an equal recipe of.
std::string to_toml(const Recipe& r);

/// One operand as a TOML inline table: {format = "e2m1", scaling = "nvfp4", square = true}. What is
/// not there is as the format's name alone means it.
std::string to_toml(const Encoding& e);
/// "nvfp4, mxfp8, bf16".
std::string level_names(const Adaptive& a);

/// All that decides results, by dotted key ("grad_w.dy.rounding"), as TOML writes it: neither
/// name, about nor source.
std::vector<std::pair<std::string, std::string>> results_keys(const Recipe& r);

}  // namespace lathe::numerics
