#include "lathe/base/config_visit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/error.h"
#include "lathe/base/view.h"

namespace lathe {

namespace {

std::string shown(const ConfigFile::Value& v) {
  if (!v.text.empty()) return v.text;
  return std::visit([](const auto& x) { return toml_value(x); }, v.value);
}

Error wrong_type(const ConfigFile& f, const std::string& name, const ConfigFile::Value& v,
                 std::string_view wanted) {
  return f.error_at(name, Error("{} must be {}, not {}", name, wanted, shown(v)));
}

/// A limit without a needless ".0".
std::string limit(double d) { return fmt::format("{}", d); }

Error out_of_range(const ConfigFile& f, const std::string& name, const ConfigFile::Value& v,
                   const Rule& r) {
  constexpr double kNone = 1e300;
  std::string wanted = "a finite number";
  if (r.min > -kNone && r.max < kNone)
    wanted = fmt::format("between {} and {}", limit(r.min), limit(r.max));
  else if (r.min > -kNone)
    wanted = fmt::format("{} or more", limit(r.min));
  else if (r.max < kNone)
    wanted = fmt::format("{} or less", limit(r.max));
  return f.error_at(name, Error("{} = {} must be {}", name, shown(v), wanted));
}

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

/// For an unknown key: the nearest in full, or the one whose last part is nearest.
std::string nearest_key(const std::string& key, const std::vector<std::string>& known) {
  std::vector<std::string> same_section, last_parts;
  const std::string section = key.substr(0, key.rfind('.') + 1);
  for (const std::string& k : known) {
    last_parts.push_back(last_part(k));
    if (!section.empty() && k == section + last_part(k)) same_section.push_back(last_part(k));
  }
  const std::string inside = nearest(last_part(key), same_section);
  if (!inside.empty()) return section + inside;
  const std::string part = nearest(last_part(key), last_parts);
  const auto it = std::find(last_parts.begin(), last_parts.end(), part);
  if (!part.empty()) return known[static_cast<std::size_t>(it - last_parts.begin())];
  return nearest(key, known);
}

}  // namespace

i64 Reader::whole(const std::string& name, const ConfigFile::Value& v, const Rule& rule) const {
  const i64* i = std::get_if<i64>(&v.value);
  if (!i) throw wrong_type(file_, name, v, "a whole number");
  const auto d = static_cast<double>(*i);
  if (!(d >= rule.min && d <= rule.max)) throw out_of_range(file_, name, v, rule);
  return *i;
}

double Reader::number(const std::string& name, const ConfigFile::Value& v, const Rule& rule) const {
  double d = 0;
  if (const double* real = std::get_if<double>(&v.value))
    d = *real;
  else if (const i64* i = std::get_if<i64>(&v.value))
    d = static_cast<double>(*i);
  else
    throw wrong_type(file_, name, v, "a number");
  if (!(d >= rule.min && d <= rule.max)) throw out_of_range(file_, name, v, rule);
  return d;
}

bool Reader::truth(const std::string& name, const ConfigFile::Value& v) const {
  const bool* b = std::get_if<bool>(&v.value);
  if (!b) throw wrong_type(file_, name, v, "true or false");
  return *b;
}

std::string Reader::text(const std::string& name, const ConfigFile::Value& v,
                         const Rule& rule) const {
  const std::string* s = std::get_if<std::string>(&v.value);
  // An override such as run.folder=2024 was typed without quotes that the shell would eat.
  if (!s && v.line == 0) s = &v.text;
  if (!s) throw wrong_type(file_, name, v, "text in quotes");
  if (s->find('\0') != std::string::npos)
    throw file_.error_at(name, Error("{} must not hold a NUL character", name));
  const std::vector<std::string>& choices = rule.choices;
  if (choices.empty() || std::find(choices.begin(), choices.end(), *s) != choices.end()) return *s;
  if (!rule.or_ending.empty() && s->ends_with(rule.or_ending)) return *s;
  const std::string other =
      rule.or_ending.empty() ? "" : fmt::format(" or a file ending in {}", rule.or_ending);
  Error e("{} must be one of {}{}, not \"{}\"", name, fmt::join(choices, ", "), other, *s);
  const std::string near = nearest(*s, choices);
  if (!near.empty()) e.hint("did you mean \"{}\"?", near);
  throw file_.error_at(name, std::move(e));
}

void Reader::finish_sections() const {
  for (const auto& [name, line] : file_.sections()) {
    if (std::find(known_sections_.begin(), known_sections_.end(), name) != known_sections_.end())
      continue;
    Error e("there is no section [{}]", name);
    const std::string near = nearest(name, known_sections_);
    if (near.empty())
      e.hint("the sections are [{}]", fmt::join(known_sections_, "], ["));
    else
      e.hint("did you mean [{}]?", near);
    throw e.at(file_.path(), line);
  }
}

void Reader::finish() const {
  finish_sections();
  for (const auto& [key, value] : file_.values()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    if (std::find(known_sections_.begin(), known_sections_.end(), key) != known_sections_.end())
      throw file_.error_at(key, std::move(Error("{} is a section, not a key", key)
                                              .hint("write [{}] on a line of its own", key)));
    Error e("there is no key {}", key);
    const std::string near = nearest_key(key, known_);
    if (near.empty())
      e.hint("{}", help_);
    else
      e.hint("did you mean {}?", near);
    throw file_.error_at(key, std::move(e));
  }
}

std::string toml_value(bool b) { return b ? "true" : "false"; }

std::string toml_value(i64 i) { return fmt::format("{}", i); }

std::string toml_value(double d) {
  if (!std::isfinite(d)) return std::isnan(d) ? "nan" : d > 0 ? "inf" : "-inf";
  std::string s = fmt::format("{}", d);
  if (s.find_first_of(".e") == std::string::npos) s += ".0";
  return s;
}

std::string toml_value(const std::string& s) {
  std::string t = "\"";
  for (const char c : s) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      t += fmt::format("\\{}", c);
    else if (c == '\n')
      t += "\\n";
    else if (c == '\t')
      t += "\\t";
    else if (u < 0x20 || u == 0x7f)
      t += fmt::format("\\u{:04X}", unsigned{u});
    else
      t += c;
  }
  return t + "\"";
}

std::string to_toml(const std::vector<std::pair<std::string, std::string>>& values) {
  std::string text, section;
  for (const auto& [key, value] : values) {
    const std::string::size_type dot = key.rfind('.');
    const std::string of = dot == std::string::npos ? "" : key.substr(0, dot);
    if (of != section) {
      text += fmt::format("{}[{}]\n", text.empty() ? "" : "\n", of);
      section = of;
    }
    text += fmt::format("{} = {}\n", last_part(key), value);
  }
  return text;
}

}  // namespace lathe
