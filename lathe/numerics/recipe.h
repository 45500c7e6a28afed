#pragma once
// A recipe says which format each operand of each product takes, and how everything between the
// products is stored. It is data: layers hand it on and never look inside.

#include <span>
#include <string>
#include <string_view>

#include "lathe/base/view.h"
#include "lathe/numerics/format.h"

namespace lathe::numerics {

/// How one operand is written down before it is multiplied.
struct Encoding {
  Format format = Format::bf16;
  bool operator==(const Encoding&) const = default;
};

/// The operands of the three products of a linear layer, and the storage around them.
struct Recipe {
  struct Product {
    Encoding a, b;
  };
  std::string_view name;
  std::string_view about;          // one line for people
  Product forward;                 // y  = x   w^T      a = x,    b = w
  Product grad_x;                  // dx = dy  w        a = dy,   b = w
  Product grad_w;                  // dw = dy^T x       a = dy,   b = x
  Product attention;               // q k^T and p v: both operands
  DType activation = DType::bf16;  // results of products, and what backward keeps
  DType residual = DType::f32;     // the residual stream and its gradient
  DType master = DType::f32;       // weights, gradients, moments, losses, logits
};

/// Every named recipe, in the order they are listed to people.
std::span<const Recipe> recipes();

/// Throws Error naming the nearest known recipe.
const Recipe& recipe(const std::string& name);

}  // namespace lathe::numerics
