#pragma once
// A recipe says how each operand of each product is written down, how everything between the
// products is stored, and where and when it is otherwise. It is data: layers hand it on and never
// look inside. Named recipes are in recipes.cpp, each with its source; users write their own in
// TOML (recipe_file.h).

#include <span>
#include <string>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/scale.h"

namespace lathe::numerics {

/// Both operands of a product.
struct Product {
  Encoding a, b;
  bool operator==(const Product&) const = default;
};

/// The three products of a linear layer.
struct Products {
  Product forward;  // y  = x   w^T      a = x,    b = w
  Product grad_x;   // dx = dy  w        a = dy,   b = w
  Product grad_w;   // dw = dy^T x       a = dy,   b = x
  bool operator==(const Products&) const = default;
};

/// Layers, and a part of the run, in which products differ from the recipe's. The last that
/// matches wins.
struct Override {
  std::string name;            // of the override, for messages and logs
  std::string match = "*";     // glob on the parameter's name ("layers.*.attn.out"), or "head":
                               // the product that makes the logits
  i64 first_blocks = 0;        // only in the first n blocks and
  i64 last_blocks = 0;         // the last n, or
  double last_share = 0;       // the last share of the blocks, at least one; all 0: in every block
  double from = 0, until = 1;  // shares of the run: steps s with from <= (s - 1) / steps < until
  Products products;
  bool operator==(const Override&) const = default;
};

/// Multiplies the loss before backward, so that small gradients do not vanish.
struct LossScale {
  double initial = 1;  // a power of two; 1 and no window: none
  i64 window = 0;      // steps without overflow after which it doubles; 0: it stays as it is
  bool any() const { return initial != 1 || window > 0; }
  bool operator==(const LossScale&) const = default;
};

/// A recipe that finds its formats during the run: for each product of each layer the lowest level
/// at which all that is measured of both operands is good enough.
struct Adaptive {
  struct Level {
    std::string name;
    Products products;
    bool operator==(const Level&) const = default;
  };
  std::vector<Level> levels;  // lowest precision first; empty: nothing adapts
  i64 every = 20;             // steps between measurements; the first step is always measured
  double snr_db = 16;         // least signal to noise ratio of an operand
  double underflow = 0.3;     // largest share of its elements that become zero
  double saturated = 0.01;    // largest share of its elements that are cut off
  double margin_db = 1.5;     // better by this, or it does not go lower
  i64 patience = 3;           // measurements in a row that ask for a lower level before it is taken
  bool operator==(const Adaptive&) const = default;
};

struct Recipe {
  std::string name;
  std::string about;   // one line for people
  std::string source;  // who published it
  Products linear;
  Product scores, values;  // attention: q k^T (a = q, b = k) and p v (a = p, b = v)
  std::vector<Override> overrides;
  DelayedOptions delayed;  // of every operand with Scaling::delayed
  LossScale loss_scale;
  Adaptive adaptive;  // of layers that no override matches; its highest level is `linear`
  DType activation = DType::bf16;  // results of products, and what backward keeps
  DType residual = DType::f32;     // the residual stream and its gradient
  DType master = DType::f32;       // weights, gradients, moments, losses, logits
  bool operator==(const Recipe&) const = default;
};

/// The six operands of a linear layer's products when x, w and dy are each written in one way.
constexpr Products products_of(const Encoding& x, const Encoding& w, const Encoding& dy) {
  return {{x, w}, {dy, w}, {dy, x}};
}

/// What a parameter is to a recipe.
struct Place {
  std::string name;   // of the parameter
  bool head = false;  // it makes the logits
  i64 block = -1;     // number of its block, -1: outside all
  i64 blocks = 0;     // of the model
};

/// Whether an override is meant for that place, whatever the step.
bool matches(const Override& o, const Place& p);

/// The products of a layer at a step (1-based) of a run of `steps`.
const Products& products_of(const Recipe& r, const Place& p, i64 step, i64 steps);

/// All that a layer there may ever multiply, without repetition: what products_of may answer, in
/// order of the overrides, and where the recipe adapts, every mixture of its levels.
std::vector<Products> all_products_of(const Recipe& r, const Place& p);

/// Whether the products of that layer are found during the run.
bool adapts(const Recipe& r, const Place& p);

/// Tokens that every sequence is padded to a multiple of, so that no block along the tokens
/// straddles two sequences: at least 32, at most 128.
i64 time_multiple(const Recipe& r);

/// Whether any operand's scale spans the tensor of a micro-batch: then the micro-batch is part of
/// the recipe, and results depend on it.
bool spans_micro_batch(const Recipe& r);

/// Every named recipe, in the order they are listed to people.
std::span<const Recipe> recipes();

std::vector<std::string> recipe_names();

/// Throws Error naming the nearest known recipe.
const Recipe& recipe(const std::string& name);

}  // namespace lathe::numerics
