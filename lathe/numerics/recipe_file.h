#pragma once
// Recipes that users write in TOML; docs/recipes.md describes the files. Every error names the
// file, the line, the key and, where a word is unknown, the nearest known one.

#include <string>
#include <string_view>

#include "lathe/numerics/recipe.h"

namespace lathe::numerics {

/// Throws Error when the file cannot be read or is no recipe.
Recipe read_recipe(const std::string& path);

/// The same from text; `path` is for messages, and its stem is the name of a recipe without one.
Recipe parse_recipe(std::string_view text, const std::string& path);

}  // namespace lathe::numerics
