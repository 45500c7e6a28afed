#include "lathe/numerics/recipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"

namespace lathe::numerics {

namespace {

bool matches_glob(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern.front() == '*') {
    for (std::size_t i = 0; i <= text.size(); ++i)
      if (matches_glob(pattern.substr(1), text.substr(i))) return true;
    return false;
  }
  return !text.empty() && pattern.front() == text.front() &&
         matches_glob(pattern.substr(1), text.substr(1));
}

bool matches(const Override& o, const Place& p) {
  if (o.match == "head" ? !p.head : !matches_glob(o.match, p.name)) return false;
  if (o.first_blocks == 0 && o.last_blocks == 0) return true;
  return p.block >= 0 && (p.block < o.first_blocks || p.block >= p.blocks - o.last_blocks);
}

template <class F>
void for_encodings(const Recipe& r, const F& f) {
  const auto of = [&](const Products& p) {
    for (const Product& x : {p.forward, p.grad_x, p.grad_w}) f(x.a), f(x.b);
  };
  of(r.linear);
  for (const Override& o : r.overrides) of(o.products);
  for (const Product& x : {r.scores, r.values}) f(x.a), f(x.b);
}

}  // namespace

const Products& products_of(const Recipe& r, const Place& p, i64 step, i64 steps) {
  const Products* found = &r.linear;
  const double share = static_cast<double>(step - 1) / static_cast<double>(std::max<i64>(steps, 1));
  for (const Override& o : r.overrides)
    if (matches(o, p) && share >= o.from && share < o.until) found = &o.products;
  return *found;
}

std::vector<Products> all_products_of(const Recipe& r, const Place& p) {
  std::vector<Products> all{r.linear};
  for (const Override& o : r.overrides) {
    if (!matches(o, p)) continue;
    if (o.from <= 0 && o.until >= 1) all.clear();
    if (std::find(all.begin(), all.end(), o.products) == all.end()) all.push_back(o.products);
  }
  return all;
}

i64 time_multiple(const Recipe& r) {
  i64 most = 32;
  for_encodings(
      r, [&](const Encoding& e) { most = std::max({most, block_size(e), i64{e.hadamard}}); });
  return most;
}

bool spans_micro_batch(const Recipe& r) {
  bool spans = false;
  // A row of a gradient's second product is a feature over all tokens.
  for_encodings(
      r, [&](const Encoding& e) { spans = spans || spans_tensor(e) || e.scaling == Scaling::row; });
  return spans;
}

const Recipe& recipe(const std::string& name) {
  std::vector<std::string> known;
  for (const Recipe& r : recipes()) {
    if (r.name == name) return r;
    known.emplace_back(r.name);
  }
  const std::string near = nearest(name, known);
  throw Error("there is no recipe \"{}\"", name)
      .hint("{}known: {}", near.empty() ? "" : fmt::format("did you mean \"{}\"? ", near),
            fmt::join(known, ", "));
}

}  // namespace lathe::numerics
