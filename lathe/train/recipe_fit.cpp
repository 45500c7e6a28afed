#include "lathe/train/recipe_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/model/config.h"
#include "lathe/model/transformer.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/recipe.h"
#include "lathe/parallel/params.h"
#include "lathe/train/config.h"

namespace lathe::train {

namespace {

/// What a product sums over: a key of the model, times how often.
struct Sum {
  const char* key;
  i64 value, times;
};

/// Columns (of x) and rows (of dy) of a weight.
struct Sums {
  Sum in, out;
};
Sums sums_of(std::string_view name, const model::ModelConfig& m) {
  const Sum width{"model.width", m.width, 1};
  if (name.ends_with(".attn.qkv"))
    return {width, {"model.head_dim", m.head_dim, m.heads + 2 * m.kv_heads}};
  if (name.ends_with(".attn.out")) return {{"model.head_dim", m.head_dim, m.heads}, width};
  if (name.ends_with(".mlp.up")) return {width, {"model.hidden", m.hidden, 1}};
  if (name.ends_with(".mlp.gate_up")) return {width, {"model.hidden", m.hidden, 2}};
  if (name.ends_with(".mlp.down")) return {{"model.hidden", m.hidden, 1}, width};
  return {width, {"model.vocab", m.vocab, 1}};
}

/// Parameters that products multiply by.
std::vector<parallel::ParamSpec> weights(const model::ModelConfig& m) {
  std::vector<parallel::ParamSpec> all = model::param_specs(m);
  std::erase_if(all, [](const parallel::ParamSpec& s) { return !s.multiplied(); });
  return all;
}

std::string nearest_multiples(i64 value, i64 divisor) {
  const i64 below = value / divisor * divisor;
  return below > 0 ? fmt::format("{} or {}", below, below + divisor)
                   : fmt::format("{}", below + divisor);
}

class Fit {
 public:
  Fit(const ConfigFile& file, const RunConfig& c) : file_(file), c_(c) {}

  void check_weights() const {
    for (const parallel::ParamSpec& s : weights(c_.model)) {
      const Sums sums = sums_of(s.name, c_.model);
      for (const numerics::Products& p :
           numerics::all_products_of(c_.recipe, s.place(c_.model.layers))) {
        check(p.forward, sums.in, s.name);
        check(p.grad_x, sums.out, s.name);
      }
    }
  }
  void check_attention() const {
    check(c_.recipe.scores, {"model.head_dim", c_.model.head_dim, 1}, "attention");
    check({{}, c_.recipe.values.b}, {"model.head_dim", c_.model.head_dim, 1}, "attention");
  }
  void check_overrides() const;

 private:
  void check(const numerics::Product& p, const Sum& sum, const std::string& where) const {
    for (const numerics::Encoding& e : {p.a, p.b}) {
      check(numerics::block_size(e), "elements that share a scale", sum, where);
      check(e.hadamard, "elements of a Hadamard transform", sum, where);
    }
  }
  void check(i64 divisor, const char* what, const Sum& sum, const std::string& where) const;

  Error at_override(const numerics::Override& o, Error e) const;

  const ConfigFile& file_;
  const RunConfig& c_;
};

void Fit::check(i64 divisor, const char* what, const Sum& sum, const std::string& where) const {
  if (divisor <= 1 || sum.value * sum.times % divisor == 0) return;
  const std::string times = sum.times == 1 ? "" : fmt::format(", times {},", sum.times);
  throw file_.error_at(
      file_.find(sum.key) ? sum.key : "train.recipe",
      Error("{} = {}{} is no multiple of the {} {} in recipe \"{}\" ({})", sum.key, sum.value,
            times, divisor, what, c_.recipe.name, where)
          .hint("set {} to {}, or use another recipe", sum.key,
                nearest_multiples(sum.value, divisor / std::gcd(divisor, sum.times))));
}

/// Where the recipe's file has it, or else what names the recipe.
Error Fit::at_override(const numerics::Override& o, Error e) const {
  if (is_recipe_file(c_.train.recipe)) {
    const ConfigFile recipe = ConfigFile::read(recipe_path(file_, c_.train.recipe));
    const auto section = recipe.sections().find("override." + o.name);
    if (section != recipe.sections().end()) return e.at(recipe.path(), section->second);
  }
  return file_.error_at("train.recipe", std::move(e));
}

void Fit::check_overrides() const {
  const std::vector<parallel::ParamSpec> all = weights(c_.model);
  for (const numerics::Override& o : c_.recipe.overrides) {
    const bool fits = std::any_of(all.begin(), all.end(), [&](const parallel::ParamSpec& s) {
      return numerics::matches(o, s.place(c_.model.layers));
    });
    if (fits) continue;
    std::vector<std::string> names;
    for (const parallel::ParamSpec& s : all)
      if (s.block <= 0) names.push_back(s.name);
    throw at_override(o, Error("override \"{}\" of recipe \"{}\" fits no parameter: match = \"{}\"",
                               o.name, c_.recipe.name, o.match)
                             .hint("leave it out, or match one of {}", fmt::join(names, ", ")));
  }
}

}  // namespace

bool is_recipe_file(const std::string& recipe) { return recipe.ends_with(".toml"); }

std::string recipe_path(const ConfigFile& file, const std::string& recipe) {
  const ConfigFile::Value* v = file.find("train.recipe");
  const std::filesystem::path path = recipe;
  return v && v->line > 0 && path.is_relative()
             ? (std::filesystem::path(file.path()).parent_path() / path).string()
             : recipe;
}

void check_fit(const ConfigFile& file, const RunConfig& c) {
  const Fit fit(file, c);
  fit.check_overrides();
  fit.check_weights();
  fit.check_attention();
}

}  // namespace lathe::train
