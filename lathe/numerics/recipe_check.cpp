#include "lathe/numerics/recipe_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/recipe.h"
#include "lathe/numerics/recipe_text.h"

namespace lathe::numerics {

namespace {

bool is_wide(Format f) {
  return f == Format::f64 || f == Format::f32 || f == Format::tf32 || f == Format::bf16 ||
         f == Format::fp16;
}

bool is_fnuz(Format f) { return info(f).kind == Kind::fnuz; }

/// Scalings that a format takes, in the order they are told to people.
std::vector<Scaling> scalings_of(Format f) {
  if (is_wide(f)) return {Scaling::none};
  if (f == Format::s1p2) return {Scaling::hif4};
  std::vector<Scaling> all;
  if (f == Format::hif8) all.push_back(Scaling::shift);
  if (info(f).bits == 8 && f != Format::mxint8) all.push_back(Scaling::none);
  for (const Scaling s : {Scaling::current, Scaling::delayed, Scaling::row}) all.push_back(s);
  if (f == Format::e4m3) all.push_back(Scaling::tile);
  if (f != Format::hif8 && !is_fnuz(f)) all.push_back(Scaling::mx);
  if (f == Format::e2m1) all.push_back(Scaling::nvfp4);
  return all;
}

std::string names(const std::vector<Scaling>& all) {
  std::string s;
  for (const Scaling x : all) s += fmt::format("{}\"{}\"", s.empty() ? "" : ", ", name_of(x));
  return s;
}

void check_scaling(const Encoding& e, const std::string& key, const Locate& at) {
  const std::vector<Scaling> known = scalings_of(e.format);
  for (const Scaling s : known)
    if (s == e.scaling) return;
  throw at({key + ".scaling"}, Error("{} = \"{}\" cannot be scaled by \"{}\"", key + ".format",
                                     name_of(e.format), name_of(e.scaling))
                                   .hint("it takes scaling = {}", names(known)));
}

void check_rounding(const Encoding& e, const std::string& key, const Locate& at) {
  const std::string where = key + ".rounding";
  if (e.rounding == Tie::hybrid)
    throw at({where}, Error("{} = \"hybrid\" is for single values: products do not take it", where)
                          .hint("use \"away\", as HiF8's paper does for language models"));
  if (e.format == Format::s1p2 && e.rounding == Tie::even)
    throw at({where}, Error("{} = \"even\" is not HiF4's: its quantiser rounds half away", where)
                          .hint("use \"away\" or \"stochastic\""));
  if ((e.format == Format::f32 || e.format == Format::f64) && e.rounding != Tie::even)
    throw at({where}, Error("{} = \"{}\": nothing is rounded on the way to {}", where,
                            name_of(e.rounding), name_of(e.format))
                          .hint("leave it out"));
}

void check_transform(const Encoding& e, const std::string& key, const Locate& at) {
  const std::string where = key + ".hadamard";
  const int h = e.hadamard;
  if (h == 0) return;
  if (h != 16 && h != 32 && h != 64)
    throw at(
        {where},
        Error("{} = {} is no order of a transform", where, h).hint("use 0 (none), 16, 32 or 64"));
  const i64 block = block_size(e);
  if (h >= block) return;
  Error error("{} = {} is smaller than the {} elements that share a scale", where, h, block);
  if (block <= 64)
    error.hint("use {}, or 0 for none", block);
  else
    error.hint("leave it out: scaling \"{}\" takes none", name_of(e.scaling));
  throw at({where}, std::move(error));
}

void check_shape(const Encoding& e, const std::string& key, const Locate& at) {
  const Scaling s = e.scaling;
  if (e.square && s != Scaling::tile && s != Scaling::mx && s != Scaling::nvfp4)
    throw at({key + ".square"},
             Error("{}.square is for blocks: scaling \"{}\" has none", key, name_of(s))
                 .hint("it goes with \"tile\", \"mx\" and \"nvfp4\""));
  if (e.power_of_two && s != Scaling::current && s != Scaling::row && s != Scaling::tile)
    throw at({key + ".power_of_two"},
             Error("{}.power_of_two does not go with scaling \"{}\"", key, name_of(s))
                 .hint("it goes with \"current\", \"row\" and \"tile\""));
  if (e.mx_rule != Encoding{}.mx_rule && s != Scaling::mx)
    throw at({key + ".mx_rule"},
             Error("{}.mx_rule is for scaling \"mx\", not \"{}\"", key, name_of(s))
                 .hint("leave it out"));
  if (!(e.head_room >= std::numeric_limits<float>::min() && e.head_room <= 1))
    throw at({key + ".head_room"},
             Error("{0}.head_room = {1} must be above 0 and at most 1", key, e.head_room)
                 .hint("1 is none; 0.75 is usual before stochastic rounding"));
}

/// Two operands of one product, with their keys.
struct Pair {
  std::string a_key, b_key;
  const Product& product;
};

/// That one product takes both operands, each of which is right on its own.
void check_together(const Pair& p, const Locate& at) {
  const auto& [a, b] = p.product;
  if (info(a.format).storage != info(b.format).storage)
    throw at({p.b_key + ".format", p.a_key + ".format"},
             Error("{} is \"{}\" and {} is \"{}\": no product takes both", p.a_key,
                   name_of(a.format), p.b_key, name_of(b.format))
                 .hint("fp32, tf32 and fp16 go with one another; bf16 and what is smaller do too"));
  if (a.hadamard != b.hadamard)
    throw at(
        {p.b_key + ".hadamard", p.a_key + ".hadamard"},
        Error("{}.hadamard = {} and {}.hadamard = {}: the product would be another one", p.a_key,
              a.hadamard, p.b_key, b.hadamard)
            .hint("set {}.hadamard = {}, or both to 0", b.hadamard < a.hadamard ? p.b_key : p.a_key,
                  std::max(a.hadamard, b.hadamard)));
}

void check_pair(const Pair& p, const Locate& at) {
  check(p.product.a, p.a_key, at);
  check(p.product.b, p.b_key, at);
  check_together(p, at);
}

std::vector<Pair> pairs(const Products& p, const std::string& prefix) {
  return {{prefix + "forward.x", prefix + "forward.w", p.forward},
          {prefix + "grad_x.dy", prefix + "grad_x.w", p.grad_x},
          {prefix + "grad_w.dy", prefix + "grad_w.x", p.grad_w}};
}

constexpr const char* kWeights = "attention.p";

/// The kernels of attention know no scales but those that are part of the elements.
void check_attention_operand(const std::string& key, const Encoding& e, const Locate& at) {
  if (e.hadamard != 0)
    throw at({key + ".hadamard"},
             Error("{}.hadamard: attention takes no transform", key).hint("leave it out"));
  if (e.head_room != 1)
    throw at({key + ".head_room"},
             Error("{}.head_room: attention takes none", key).hint("leave it out"));
  const bool weights = key == kWeights;
  const std::vector<Scaling> known = weights
                                         ? std::vector{Scaling::none, Scaling::shift}
                                         : std::vector{Scaling::none, Scaling::mx, Scaling::hif4};
  if (std::find(known.begin(), known.end(), e.scaling) == known.end() || e.square)
    throw at({key + ".scaling"},
             Error("{}.scaling = \"{}\"{}: attention keeps no scales beside the elements", key,
                   name_of(e.scaling), e.square ? ", square" : "")
                 .hint("it takes scaling = {}", names(known)));
  if (weights && e.rounding == Tie::stochastic)
    throw at({key + ".rounding"},
             Error("{}.rounding = \"stochastic\": weights are rounded to nearest", key)
                 .hint("use \"even\""));
}

/// Weights lie between 0 and 1: any format of few bits takes them by one shift, though other
/// tensors of that format need scales of another kind.
void check_weights(const Encoding& e, const Locate& at) {
  if (e.scaling != Scaling::shift) return check(e, kWeights, at);
  const std::string key = kWeights;
  if (is_wide(e.format) || e.format == Format::s1p2)
    throw at({key + ".scaling"},
             Error("{}.format = \"{}\" cannot be scaled by \"shift\"", key, name_of(e.format))
                 .hint("leave scaling out: \"shift\" is for 8 bits and less"));
  check_rounding(e, key, at);
  check_shape(e, key, at);
  check_transform(e, key, at);
}

void check_attention(const Recipe& r, const Locate& at) {
  const Pair scores{"attention.q", "attention.k", r.scores};
  const Pair values{kWeights, "attention.v", r.values};
  check_pair(scores, at);
  check_weights(r.values.a, at);
  check(r.values.b, values.b_key, at);
  check_together(values, at);
  for (const Pair& p : {scores, values}) {
    check_attention_operand(p.a_key, p.product.a, at);
    check_attention_operand(p.b_key, p.product.b, at);
  }
}

void check_override(const Override& o, const Locate& at) {
  const std::string key = "override." + o.name;
  if (o.match.empty())
    throw at({key + ".match"}, Error("{}.match is empty: it fits nothing", key)
                                   .hint("\"*\" fits every layer; \"head\" what makes the logits"));
  if (!(o.from < o.until))
    throw at(
        {key + (o.from > 0 ? ".from" : ".until")},
        Error("{0}: from = {1} is not before until = {2}, so it never holds", key, o.from, o.until)
            .hint("they are shares of the run: from = 0.8, until = 1.0"));
}

/// FP64 is a yardstick: a recipe is in it wholly, or not at all.
void check_doubles(const Recipe& r, const std::vector<Pair>& all, const Locate& at) {
  const bool f64 = r.master == DType::f64;
  for (const Pair& p : all)
    for (const auto& [key, e] :
         {std::pair<std::string, Encoding>{p.a_key, p.product.a}, {p.b_key, p.product.b}})
      if ((e.format == Format::f64) != f64)
        throw at(
            {key + ".format"},
            Error("{} is \"{}\" in a recipe of {}", key, name_of(e.format),
                  f64 ? "\"fp64\"" : "other formats")
                .hint("\"fp64\" is a recipe of its own: use it for every operand or for none"));
  for (const auto& [key, type] :
       {std::pair<std::string, DType>{"activation", r.activation}, {"residual", r.residual}})
    if ((type == DType::f64) != f64)
      throw at({key}, Error("{} = \"{}\" does not go with {}", key, name_of(type),
                            f64 ? "\"fp64\" operands" : "these formats")
                          .hint("use \"{}\"", f64 ? "fp64" : "fp32"));
}

}  // namespace

void check(const Encoding& e, const std::string& key, const Locate& at) {
  check_scaling(e, key, at);
  check_rounding(e, key, at);
  check_shape(e, key, at);
  check_transform(e, key, at);
}

void check(const Recipe& r, const Locate& at) {
  std::vector<Pair> all = pairs(r.linear, "");
  for (const Override& o : r.overrides) {
    check_override(o, at);
    for (const Pair& p : pairs(o.products, "override." + o.name + ".")) all.push_back(p);
  }
  for (const Pair& p : all) check_pair(p, at);
  for (const Adaptive::Level& l : r.adaptive.levels)
    if (info(l.products.forward.a.format).storage != info(r.linear.forward.a.format).storage)
      throw at(
          {"adaptive.levels"},
          Error("adaptive.levels: \"{}\" does not go with the others", l.name)
              .hint("fp32, tf32 and fp16 go with one another; bf16 and what is smaller do too"));
  check_attention(r, at);
  all.push_back({"attention.q", "attention.k", r.scores});
  all.push_back({"attention.p", "attention.v", r.values});
  check_doubles(r, all, at);
  // Attention packs the operands of both its products as one type.
  check_together({"attention.k", "attention.v", {r.scores.b, r.values.b}}, at);
  const double initial = r.loss_scale.initial;
  int exponent = 0;
  if (!(initial >= 1) || std::frexp(initial, &exponent) != 0.5)
    throw at({"loss_scale.initial"},
             Error("loss_scale.initial = {} is no power of two", initial).hint("for example 64"));
}

}  // namespace lathe::numerics
