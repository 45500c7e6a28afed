#include "lathe/numerics/recipe_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/base/config_visit.h"
#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/recipe.h"
#include "lathe/numerics/scale.h"

namespace lathe::numerics {

namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

std::string quoted(std::string_view s) { return toml_value(std::string(s)); }

/// The shortest text that reads back to the same float.
std::string number(float f) {
  const std::string s = fmt::format("{}", f);
  return s.find_first_of(".e") == std::string::npos ? s + ".0" : s;
}

/// Every field of an operand.
Values fields(const Encoding& e) {
  return {{"format", quoted(name_of(e.format))},     {"scaling", quoted(name_of(e.scaling))},
          {"rounding", quoted(name_of(e.rounding))}, {"hadamard", toml_value(i64{e.hadamard})},
          {"square", toml_value(e.square)},          {"power_of_two", toml_value(e.power_of_two)},
          {"mx_rule", quoted(name_of(e.mx_rule))},   {"head_room", number(e.head_room)}};
}

struct NamedOperand {
  std::string_view key;
  const Encoding& encoding;
};
std::vector<NamedOperand> operands(const Products& p) {
  return {{"forward.x", p.forward.a}, {"forward.w", p.forward.b}, {"grad_x.dy", p.grad_x.a},
          {"grad_x.w", p.grad_x.b},   {"grad_w.dy", p.grad_w.a},  {"grad_w.x", p.grad_w.b}};
}
std::vector<NamedOperand> attention(const Recipe& r) {
  return {{"attention.q", r.scores.a},
          {"attention.k", r.scores.b},
          {"attention.p", r.values.a},
          {"attention.v", r.values.b}};
}

/// Where and when an override holds.
Values place(const Override& o) {
  Values v{{"match", toml_value(o.match)}};
  if (o.first_blocks != 0) v.emplace_back("first_blocks", toml_value(o.first_blocks));
  if (o.last_blocks != 0) v.emplace_back("last_blocks", toml_value(o.last_blocks));
  if (o.last_share != 0) v.emplace_back("last_share", toml_value(o.last_share));
  if (o.from != 0) v.emplace_back("from", toml_value(o.from));
  if (o.until != 1) v.emplace_back("until", toml_value(o.until));
  return v;
}

/// The recipe of one plain format whose products these are; empty when there is none.
std::string plain_recipe(const Products& p) {
  for (const char* name : {"bf16", "fp32", "tf32", "fp16", "fp64"})
    if (recipe(name).linear == p) return name;
  return {};
}

std::string lines(const Values& v) {
  std::string s;
  for (const auto& [key, value] : v) s += fmt::format("{} = {}\n", key, value);
  return s;
}

Values delayed(const DelayedOptions& d) {
  return {{"history", toml_value(i64{d.history})},
          {"margin", toml_value(i64{d.margin})},
          {"most_recent", toml_value(d.most_recent)}};
}

bool uses_delayed(const Recipe& r) {
  const auto any = [](const std::vector<NamedOperand>& all) {
    return std::any_of(all.begin(), all.end(), [](const NamedOperand& n) {
      return n.encoding.scaling == Scaling::delayed;
    });
  };
  return any(operands(r.linear)) || any(attention(r)) ||
         std::any_of(r.overrides.begin(), r.overrides.end(),
                     [&](const Override& o) { return any(operands(o.products)); });
}

Values loss_scale(const LossScale& s) {
  return {{"initial", toml_value(s.initial)}, {"window", toml_value(s.window)}};
}

Values adaptive(const Adaptive& a) {
  return {{"levels", toml_value(level_names(a))}, {"every", toml_value(a.every)},
          {"snr_db", toml_value(a.snr_db)},       {"underflow", toml_value(a.underflow)},
          {"saturated", toml_value(a.saturated)}, {"margin_db", toml_value(a.margin_db)},
          {"patience", toml_value(a.patience)}};
}

std::string text(const Override& o) {
  std::string s = fmt::format("\n[override.{}]\n{}", o.name, lines(place(o)));
  const std::string plain = plain_recipe(o.products);
  if (!plain.empty()) return s + fmt::format("recipe = \"{}\"\n", plain);
  for (const NamedOperand& n : operands(o.products))
    s += fmt::format("{} = {}\n", n.key, to_toml(n.encoding));
  return s;
}

void add(Values& to, const std::string& prefix, const Values& from) {
  for (const auto& [key, value] : from) to.emplace_back(prefix + key, value);
}

std::vector<NamedEncoding> all_named() {
  std::vector<NamedEncoding> all;
  for (const FormatInfo& i : kFormats) {
    if (i.kind == Kind::scale || i.format == Format::s1p2) continue;
    Encoding e{.format = i.format};
    if (i.format == Format::hif8 || i.format == Format::tf32) e.rounding = Tie::away;
    if (i.bits <= 6 || i.kind == Kind::twos) e.scaling = Scaling::mx;
    all.push_back({i.name, e, true});
  }
  const auto block = [&](std::string_view name, Format f, Scaling s) {
    all.push_back({name, {.format = f, .scaling = s}, false});
  };
  block("mxfp8", Format::e4m3, Scaling::mx);
  block("mxfp8e5m2", Format::e5m2, Scaling::mx);
  block("mxfp6e2m3", Format::e2m3, Scaling::mx);
  block("mxfp6e3m2", Format::e3m2, Scaling::mx);
  block("mxfp4", Format::e2m1, Scaling::mx);
  block("nvfp4", Format::e2m1, Scaling::nvfp4);
  block("int8", Format::mxint8, Scaling::row);
  all.push_back(
      {"hif4", {.format = Format::s1p2, .scaling = Scaling::hif4, .rounding = Tie::away}, false});
  return all;
}

}  // namespace

std::string_view name_of(Format f) { return f == Format::s1p2 ? "hif4" : info(f).name; }

std::string_view name_of(DType t) {
  CHECK(t == DType::bf16 || t == DType::f32 || t == DType::f64, "type {}", static_cast<int>(t));
  return t == DType::bf16 ? "bf16" : t == DType::f32 ? "fp32" : "fp64";
}

const std::vector<NamedEncoding>& named_encodings() {
  static const std::vector<NamedEncoding> kNamed = all_named();
  return kNamed;
}

const NamedEncoding* find_encoding(std::string_view name) {
  for (const NamedEncoding& n : named_encodings())
    if (n.name == name) return &n;
  return nullptr;
}

std::string level_names(const Adaptive& a) {
  std::string s;
  for (const Adaptive::Level& l : a.levels) s += (s.empty() ? "" : ", ") + l.name;
  return s;
}

std::string to_toml(const Encoding& e) {
  const Values all = fields(e);
  const NamedEncoding* named = find_encoding(name_of(e.format));
  CHECK(named, "{} is no element", info(e.format).name);
  const Values usual = fields(named->encoding);
  std::string s;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i == 0 || all[i] != usual[i] || (i == 1 && e.scaling == Scaling::mx))
      s += fmt::format("{}{} = {}", s.empty() ? "" : ", ", all[i].first, all[i].second);
  return "{" + s + "}";
}

std::string to_toml(const Recipe& r) {
  std::string s = lines({{"name", toml_value(r.name)},
                         {"about", toml_value(r.about)},
                         {"source", toml_value(r.source)},
                         {"activation", quoted(name_of(r.activation))},
                         {"residual", quoted(name_of(r.residual))}});
  std::string section;
  auto all = operands(r.linear);
  for (const NamedOperand& n : attention(r)) all.push_back(n);
  for (const NamedOperand& n : all) {
    const std::size_t dot = n.key.find('.');
    if (n.key.substr(0, dot) != section) {
      section = n.key.substr(0, dot);
      s += fmt::format("\n[{}]\n", section);
    }
    s += fmt::format("{} = {}\n", n.key.substr(dot + 1), to_toml(n.encoding));
  }
  if (uses_delayed(r) || r.delayed != DelayedOptions{})
    s += "\n[delayed]\n" + lines(delayed(r.delayed));
  if (r.loss_scale != LossScale{}) s += "\n[loss_scale]\n" + lines(loss_scale(r.loss_scale));
  if (!r.adaptive.levels.empty()) s += "\n[adaptive]\n" + lines(adaptive(r.adaptive));
  for (const Override& o : r.overrides) s += text(o);
  return s;
}

std::vector<std::pair<std::string, std::string>> results_keys(const Recipe& r) {
  Values keys{{"activation", quoted(name_of(r.activation))},
              {"residual", quoted(name_of(r.residual))},
              {"master", quoted(name_of(r.master))}};
  const auto add_operands = [&](const std::string& prefix, const std::vector<NamedOperand>& all) {
    for (const NamedOperand& n : all)
      add(keys, fmt::format("{}{}.", prefix, n.key), fields(n.encoding));
  };
  add_operands("", operands(r.linear));
  add_operands("", attention(r));
  if (uses_delayed(r)) add(keys, "delayed.", delayed(r.delayed));
  add(keys, "loss_scale.", loss_scale(r.loss_scale));
  if (!r.adaptive.levels.empty()) add(keys, "adaptive.", adaptive(r.adaptive));
  for (const Adaptive::Level& l : r.adaptive.levels)
    add_operands(fmt::format("adaptive.{}.", l.name), operands(l.products));
  std::string order;
  for (const Override& o : r.overrides) {
    order += (order.empty() ? "" : ", ") + o.name;
    add(keys, fmt::format("override.{}.", o.name), place(o));
    add_operands(fmt::format("override.{}.", o.name), operands(o.products));
  }
  keys.emplace_back("overrides", toml_value(order));
  return keys;
}

}  // namespace lathe::numerics
