#include "lathe/numerics/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/numerics/encoding.h"

namespace lathe::numerics {

namespace {

/// Whether all of text fits a pattern in which '*' stands for any characters.
bool matches_glob(std::string_view pattern, std::string_view text) {
  constexpr std::size_t kNone = std::string_view::npos;
  std::size_t p = 0, star = kNone, resume = 0;
  for (std::size_t t = 0; t < text.size();) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p, ++t;
    } else if (star != kNone) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == kNone;
}

/// How many blocks at the end an override is for.
i64 last_blocks(const Override& o, i64 blocks) {
  if (o.last_share == 0) return o.last_blocks;
  const i64 share = std::llround(o.last_share * static_cast<double>(blocks));
  return std::max({o.last_blocks, share, i64{1}});
}

/// Of linear layers: attention's operands have no scale beside a token's own elements.
template <class F>
void for_encodings(const Recipe& r, const F& f) {
  const auto of = [&](const Products& p) {
    for (const Product& x : {p.forward, p.grad_x, p.grad_w}) f(x.a), f(x.b);
  };
  of(r.linear);
  for (const Override& o : r.overrides) of(o.products);
  for (const Adaptive::Level& l : r.adaptive.levels) of(l.products);
}

}  // namespace

bool matches(const Override& o, const Place& p) {
  if (o.match == "head" ? !p.head : !matches_glob(o.match, p.name)) return false;
  if (o.first_blocks == 0 && o.last_blocks == 0 && o.last_share == 0) return true;
  return p.block >= 0 &&
         (p.block < o.first_blocks || p.block >= p.blocks - last_blocks(o, p.blocks));
}

const Products& products_of(const Recipe& r, const Place& p, i64 step, i64 steps) {
  const Products* found = &r.linear;
  // After the last step all is as at the last step.
  const i64 last = std::max<i64>(steps, 1), at = std::min(step, last) - 1;
  const double share = static_cast<double>(at) / static_cast<double>(last);
  for (const Override& o : r.overrides)
    if (matches(o, p) && share >= o.from && share < o.until) found = &o.products;
  return *found;
}

bool adapts(const Recipe& r, const Place& p) {
  return !r.adaptive.levels.empty() &&
         std::none_of(r.overrides.begin(), r.overrides.end(),
                      [&](const Override& o) { return matches(o, p); });
}

std::vector<Products> all_products_of(const Recipe& r, const Place& p) {
  std::vector<Products> all{r.linear};
  const auto add = [&](const Products& x) {
    if (std::find(all.begin(), all.end(), x) == all.end()) all.push_back(x);
  };
  if (adapts(r, p))
    for (const Adaptive::Level& a : r.adaptive.levels)
      for (const Adaptive::Level& b : r.adaptive.levels)
        for (const Adaptive::Level& c : r.adaptive.levels)
          add({a.products.forward, b.products.grad_x, c.products.grad_w});
  for (const Override& o : r.overrides) {
    if (!matches(o, p)) continue;
    if (o.from <= 0 && o.until >= 1) all.clear();
    add(o.products);
  }
  return all;
}

i64 time_multiple(const Recipe& r) {
  i64 most = 32;
  for_encodings(r, [&](const Encoding& e) {
    most = std::max({most, block_size(e), i64{e.hadamard}, scale_shape(e, 1, 1).depth});
  });
  return most;
}

bool spans_micro_batch(const Recipe& r) {
  bool spans = false;
  // A row of a gradient's second product is a feature over all tokens.
  for_encodings(
      r, [&](const Encoding& e) { spans = spans || spans_tensor(e) || e.scaling == Scaling::row; });
  return spans;
}

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const Recipe& r : recipes()) names.push_back(r.name);
  return names;
}

const Recipe& recipe(const std::string& name) {
  for (const Recipe& r : recipes())
    if (r.name == name) return r;
  const std::vector<std::string> known = recipe_names();
  const std::string near = nearest(name, known);
  throw Error("there is no recipe \"{}\"", name)
      .hint("{}known: {}", near.empty() ? "" : fmt::format("did you mean \"{}\"? ", near),
            fmt::join(known, ", "));
}

}  // namespace lathe::numerics
