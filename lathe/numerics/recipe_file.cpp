#include "lathe/numerics/recipe_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/config_visit.h"
#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/recipe.h"
#include "lathe/numerics/recipe_check.h"
#include "lathe/numerics/recipe_schema.h"
#include "lathe/numerics/recipe_text.h"

namespace lathe::numerics {

namespace {

/// A word's place in an enum whose values are named in order.
template <class E, std::size_t N>
E value_of(const std::string& word, const std::array<std::string_view, N>& names) {
  const auto* at = std::find(names.begin(), names.end(), word);
  CHECK(at != names.end(), "{} was read as one of the known names", word);
  return static_cast<E>(at - names.begin());
}

DType type_of(const std::string& word) {
  return word == "bf16" ? DType::bf16 : word == "fp32" ? DType::f32 : DType::f64;
}

/// A pointer into `all`, const or not; null where there is none of that name.
template <class Overrides>
auto* find(Overrides& all, const std::string& name) {
  const auto at =
      std::find_if(all.begin(), all.end(), [&](const Override& o) { return o.name == name; });
  return at == all.end() ? nullptr : &*at;
}

/// Turns a file into a recipe.
class Builder {
 public:
  explicit Builder(const ConfigFile& f) : file_(f) {}
  Recipe build();

 private:
  bool given(const std::string& key) const {
    return file_.find(key) != nullptr || file_.sections().contains(key);
  }
  /// At the key, or else at the innermost table around it that the file has.
  Error located(std::string key, Error e) const;
  void refuse_scales() const;
  /// Null where there is none or none of that name: the Reader says so.
  const Recipe* base_recipe() const;
  std::vector<OverrideText> override_texts(const Recipe* base) const;
  void mark_words(ProductText& p, const std::string& prefix) const;
  void mark_words(ProductsText& p, const std::string& prefix) const;

  Encoding started(const std::string& key, const OperandText& t, const Encoding* start) const;
  Encoding operand(const std::string& key, const OperandText& t, const Encoding* start) const;
  Product product(const std::string& prefix, const ProductText& t, const Product* start) const;
  Products products(const std::string& prefix, const ProductsText& t, const Products* start) const;
  Override made(const OverrideText& t, const Recipe& r, const Override* before) const;
  void add_overrides(Recipe& r, const OverridesText& t) const;
  void set_texts(Recipe& r, const RecipeText& t, const Recipe* base) const;
  void set_attention(Recipe& r, const AttentionText& t, const Recipe* base) const;
  Adaptive::Level level(const std::string& key, const std::string& name) const;
  void set_levels(Recipe& r, const AdaptiveText& t) const;

  const ConfigFile& file_;
};

Error Builder::located(std::string key, Error e) const {
  for (;;) {
    if (file_.find(key)) return file_.error_at(key, std::move(e));
    const auto section = file_.sections().find(key);
    if (section != file_.sections().end()) return e.at(file_.path(), section->second);
    const std::size_t dot = key.rfind('.');
    if (dot == std::string::npos) return e.at(file_.path());
    key.resize(dot);
  }
}

void Builder::refuse_scales() const {
  for (const auto& [key, v] : file_.values()) {
    const auto* word = std::get_if<std::string>(&v.value);
    if (word && (*word == "e8m0" || *word == "e6m2"))
      throw located(
          key, Error("{} = \"{}\" is a scale, not an element", key, *word)
                   .hint("of blocks: format = {}",
                         *word == "e8m0" ? "\"mxfp8\", \"mxfp6e2m3\" or \"mxfp4\"" : "\"hif4\""));
  }
}

const Recipe* Builder::base_recipe() const {
  const ConfigFile::Value* v = file_.find("base");
  const auto* name = v ? std::get_if<std::string>(&v->value) : nullptr;
  if (name)
    for (const Recipe& r : recipes())
      if (r.name == *name) return &r;
  return nullptr;
}

/// In the order of their lines. Those of the base's names start as the base has them.
std::vector<OverrideText> Builder::override_texts(const Recipe* base) const {
  std::vector<std::pair<int, std::string>> found;
  const std::string prefix = "override.";
  for (const auto& [key, line] : file_.sections())
    if (key.starts_with(prefix) && key.find('.', prefix.size()) == std::string::npos)
      found.emplace_back(line, key.substr(prefix.size()));
  std::sort(found.begin(), found.end());
  std::vector<OverrideText> all;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (i > 0 && found[i].first == found[i - 1].first)
      throw located(
          prefix + found[i].second,
          Error("two overrides on one line: the last that fits wins, so their order counts")
              .hint("write [override.{}] on a line of its own", found[i].second));
    OverrideText t;
    if (const Override* o = base ? find(base->overrides, found[i].second) : nullptr) t.place = *o;
    t.place.name = found[i].second;
    mark_words(t.products, prefix + t.place.name + ".");
    all.push_back(std::move(t));
  }
  return all;
}

void Builder::mark_words(ProductText& p, const std::string& prefix) const {
  for (OperandText* o : {&p.a, &p.b})
    o->is_word = file_.find(fmt::format("{}{}.{}", prefix, p.key, o->key)) != nullptr;
}

void Builder::mark_words(ProductsText& p, const std::string& prefix) const {
  for (ProductText* x : {&p.forward, &p.grad_x, &p.grad_w}) mark_words(*x, prefix);
}

/// The operand before the keys beside `format` are looked at.
Encoding Builder::started(const std::string& key, const OperandText& t,
                          const Encoding* start) const {
  const bool scaled = given(key + ".scaling");
  if (!t.is_word && !given(key + ".format")) {
    if (!start)
      throw located(key,
                    Error("{} names no format", key).hint("for example: {{format = \"bf16\"}}"));
    Encoding e = *start;
    if (scaled)
      e = {.format = e.format,
           .rounding = e.rounding,
           .hadamard = e.hadamard,
           .head_room = e.head_room};
    return e;
  }
  const NamedEncoding& named = *find_encoding(t.format);
  if (t.format == "e2m1" && !scaled)
    throw located(key, Error("{} = \"e2m1\" needs a scaling: both MXFP4 and NVFP4 hold it", key)
                           .hint("write \"mxfp4\" or \"nvfp4\" for its format"));
  if (scaled && !named.any_scaling && t.scaling != name_of(named.encoding.scaling))
    throw located(key + ".scaling",
                  Error("{}.scaling = \"{}\" is not that of \"{}\"", key, t.scaling, named.name)
                      .hint("leave it out, or name the element: format = \"{}\"",
                            name_of(named.encoding.format)));
  return named.encoding;
}

Encoding Builder::operand(const std::string& key, const OperandText& t,
                          const Encoding* start) const {
  if (!given(key)) {
    if (start) return *start;
    const std::size_t dot = key.rfind('.');
    throw located(key,
                  Error("{} is missing: a recipe says all operands of its three products", key)
                      .hint("write {1} = {{format = \"bf16\"}} in [{0}], or start from a named "
                            "recipe: base = \"bf16\"",
                            key.substr(0, dot), key.substr(dot + 1)));
  }
  Encoding e = started(key, t, start);
  if (given(key + ".scaling")) e.scaling = value_of<Scaling>(t.scaling, kScalingNames);
  if (given(key + ".rounding")) e.rounding = value_of<Tie>(t.rounding, kTieNames);
  if (given(key + ".mx_rule")) e.mx_rule = value_of<MxRule>(t.mx_rule, kMxRuleNames);
  if (given(key + ".hadamard")) e.hadamard = t.hadamard;
  if (given(key + ".square")) e.square = t.square;
  if (given(key + ".power_of_two")) e.power_of_two = t.power_of_two;
  if (given(key + ".head_room")) e.head_room = static_cast<float>(t.head_room);
  return e;
}

Product Builder::product(const std::string& prefix, const ProductText& t,
                         const Product* start) const {
  const std::string key = prefix + t.key + ".";
  return {operand(key + t.a.key, t.a, start ? &start->a : nullptr),
          operand(key + t.b.key, t.b, start ? &start->b : nullptr)};
}

Products Builder::products(const std::string& prefix, const ProductsText& t,
                           const Products* start) const {
  return {product(prefix, t.forward, start ? &start->forward : nullptr),
          product(prefix, t.grad_x, start ? &start->grad_x : nullptr),
          product(prefix, t.grad_w, start ? &start->grad_w : nullptr)};
}

Override Builder::made(const OverrideText& t, const Recipe& r, const Override* before) const {
  const std::string key = "override." + t.place.name, prefix = key + ".";
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<u8>(c)) != 0 || c == '-' || c == '_';
  };
  if (!std::all_of(t.place.name.begin(), t.place.name.end(), is_word))
    throw located(key, Error("an override cannot be called \"{}\"", t.place.name)
                           .hint("use letters, digits, - and _"));
  const bool has_products =
      std::any_of(file_.sections().begin(), file_.sections().end(),
                  [&](const auto& section) { return section.first.starts_with(prefix); });
  if (!before && t.recipe.empty() && !has_products)
    throw located(key, Error("{} changes nothing", key)
                           .hint("add recipe = \"bf16\", or operands: grad_w.dy = {{…}}"));
  const Products& start = !t.recipe.empty() ? recipe(t.recipe).linear
                          : before          ? before->products
                                            : r.linear;
  Override o = t.place;
  o.products = products(prefix, t.products, &start);
  return o;
}

/// Those of the base come first; one of a known name is changed where it is.
void Builder::add_overrides(Recipe& r, const OverridesText& t) const {
  for (const OverrideText& text : t.all) {
    const std::string key = "override." + text.place.name;
    Override* before = find(r.overrides, text.place.name);
    if (text.remove) {
      if (!before)
        throw located(key + ".remove",
                      Error("{}.remove: there is none of that name to leave out", key)
                          .hint("a named recipe given as base may have some"));
      r.overrides.erase(r.overrides.begin() + (before - r.overrides.data()));
      continue;
    }
    Override o = made(text, r, before);
    if (before)
      *before = std::move(o);
    else
      r.overrides.push_back(std::move(o));
  }
}

void Builder::set_texts(Recipe& r, const RecipeText& t, const Recipe* base) const {
  r.name = given("name") ? t.plain.name : std::filesystem::path(file_.path()).stem().string();
  if (r.name.empty())
    throw located("name", Error("name is empty").hint("leave it out: the file's name is used"));
  r.about = given("about") ? t.plain.about : base ? base->name + " with changes" : "";
  r.source = given("source") ? t.plain.source : base ? base->source : "";
  if (given("activation")) r.activation = type_of(t.activation);
  if (given("residual")) r.residual = type_of(t.residual);
}

void Builder::set_attention(Recipe& r, const AttentionText& t, const Recipe* base) const {
  const Format usual = r.activation == DType::bf16  ? Format::bf16
                       : r.activation == DType::f32 ? Format::f32
                                                    : Format::f64;
  const Encoding e{.format = usual};
  const Product plain{e, e};
  r.scores = product("", t.scores, base ? &base->scores : &plain);
  r.values = product("", t.values, base ? &base->values : &plain);
}

bool scales_by_the_past(const Products& p) {
  for (const Product& x : {p.forward, p.grad_x, p.grad_w})
    if (x.a.scaling == Scaling::delayed || x.b.scaling == Scaling::delayed) return true;
  return false;
}

Adaptive::Level Builder::level(const std::string& key, const std::string& name) const try {
  const Products& p = recipe(name).linear;
  if (!recipe(name).adaptive.levels.empty())
    throw Error("adaptive.levels: \"{}\" adapts itself", name).hint("name its levels instead");
  if (scales_by_the_past(p))
    throw Error(
        "adaptive.levels: \"{}\" scales by the steps before, when a product may have been at "
        "another level",
        name)
        .hint("use fp8-hybrid-current, or another that scales by the present");
  return {name, p};
} catch (const Error& e) {
  throw located(key, e);
}

/// Each level is the products of a named recipe.
void Builder::set_levels(Recipe& r, const AdaptiveText& t) const {
  const std::string key = "adaptive.levels";
  r.adaptive = t.numbers;
  r.adaptive.levels.clear();
  std::string_view rest = t.levels;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    std::string_view word = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    for (const Adaptive::Level& l : r.adaptive.levels)
      if (l.name == word)
        throw located(key, Error("adaptive.levels names \"{}\" twice", word)
                               .hint("lowest precision first, each once"));
    r.adaptive.levels.push_back(level(key, std::string(word)));
  }
  if (r.adaptive.levels.empty()) {
    if (file_.sections().contains("adaptive"))
      throw located(key, Error("adaptive.levels is missing: there is nothing to choose from")
                             .hint("levels = \"nvfp4, mxfp8, bf16\""));
    return;
  }
  const Adaptive::Level& last = r.adaptive.levels.back();
  if (r.adaptive.levels.size() < 2 || last.products != r.linear)
    throw located(key, Error("adaptive.levels = \"{}\" must end in the recipe's own products, and "
                             "name a lower level before them",
                             t.levels)
                           .hint("with base = \"bf16\": levels = \"nvfp4, mxfp8, bf16\""));
}

Recipe Builder::build() {
  refuse_scales();
  const Recipe* base = base_recipe();
  RecipeText t;
  if (base) t.plain = *base;
  if (base) t.adaptive = {level_names(base->adaptive), base->adaptive};
  mark_words(t.linear, "");
  mark_words(t.attention.scores, "");
  mark_words(t.attention.values, "");
  t.overrides.all = override_texts(base);
  Reader reader(file_, "docs/recipes.md lists every key");
  visit(reader, t);
  reader.finish();

  Recipe r = t.plain;
  r.linear = products("", t.linear, base ? &base->linear : nullptr);
  if (!base) {
    r.activation = info(r.linear.forward.a.format).storage;
    r.master = r.activation == DType::f64 ? DType::f64 : DType::f32;
    r.residual = r.master;
  }
  set_texts(r, t, base);
  set_attention(r, t.attention, base);
  add_overrides(r, t.overrides);
  set_levels(r, t.adaptive);
  check(r, [this](const std::vector<std::string>& keys, Error e) {
    const auto has_operand = [this](const std::string& key) {
      return given(key) || given(key.substr(0, key.rfind('.')));
    };
    const auto first = std::find_if(keys.begin(), keys.end(), has_operand);
    return located(first == keys.end() ? keys.front() : *first, std::move(e));
  });
  return r;
}

}  // namespace

Recipe parse_recipe(std::string_view text, const std::string& path) {
  return Builder(ConfigFile::parse(text, path)).build();
}

Recipe read_recipe(const std::string& path) {
  if (is_folder(path))
    throw Error("a recipe file was expected, but this is a folder")
        .at(path)
        .hint("name the .toml file in it");
  if (!exists(path))
    throw Error("there is no such recipe file")
        .at(path)
        .hint("configs/recipes/ holds examples; named recipes: {}",
              fmt::join(recipe_names(), ", "));
  return parse_recipe(read_file(path), path);
}

}  // namespace lathe::numerics
