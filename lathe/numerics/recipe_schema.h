#pragma once
// A recipe file as it is written: words, not yet meanings. Which keys a file sets is asked of its
// ConfigFile. recipe_file.cpp makes a recipe of it.

#include <string>
#include <vector>

#include "lathe/base/config_visit.h"
#include "lathe/numerics/recipe.h"

namespace lathe::numerics {

struct OperandText {
  explicit OperandText(const char* k) : key(k) {}
  const char* key;
  bool is_word = false;  // x = "mxfp8", not a table
  std::string format, scaling, rounding, mx_rule;
  int hadamard = 0;
  bool square = false, power_of_two = false;
  double head_room = 1;
};
struct ProductText {
  const char* key;
  OperandText a, b;
};
struct ProductsText {
  ProductText forward{"forward", OperandText("x"), OperandText("w")};
  ProductText grad_x{"grad_x", OperandText("dy"), OperandText("w")};
  ProductText grad_w{"grad_w", OperandText("dy"), OperandText("x")};
};
struct AttentionText {
  ProductText scores{"attention", OperandText("q"), OperandText("k")};
  ProductText values{"attention", OperandText("p"), OperandText("v")};
};
struct OverrideText {
  Override place;
  bool remove = false;
  std::string recipe;
  ProductsText products;
};
struct OverridesText {
  std::vector<OverrideText> all;  // in the order of the file
};
struct AdaptiveText {
  std::string levels;  // names of recipes, lowest precision first, with commas between
  Adaptive numbers;    // all but the levels
};
struct RecipeText {
  Recipe plain;  // name, about, source, delayed, loss_scale
  AdaptiveText adaptive;
  std::string base, activation, residual;
  ProductsText linear;
  AttentionText attention;
  OverridesText overrides;
};

/// Reads all keys of a recipe file; those of Reader::finish are all that there are.
void visit(Reader& v, RecipeText& t);

}  // namespace lathe::numerics
