#include "lathe/base/config.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lathe/base/config_visit.h"
#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"

namespace lathe {

namespace {

using Scalar = std::variant<bool, i64, double, std::string>;

int line_of(const toml::node& n) { return static_cast<int>(n.source().begin.line); }

std::optional<Scalar> scalar_of(const toml::node& n) {
  if (const auto* b = n.as_boolean()) return b->get();
  if (const auto* i = n.as_integer()) return i64{i->get()};
  if (const auto* d = n.as_floating_point()) return d->get();
  if (const auto* s = n.as_string()) return s->get();
  return std::nullopt;
}

toml::table parse_toml(std::string_view text, const std::string& path) {
  try {
    return toml::parse(text, path);
  } catch (const toml::parse_error& e) {
    Error error("this is not TOML: {}", e.description());
    error.at(path, static_cast<int>(e.source().begin.line));
    throw error.hint("column {}; text stands in quotes, sections in [brackets]",
                     e.source().begin.column);
  }
}

/// Puts the scalars of a table and its sub-tables under their dotted names.
void flatten(const toml::table& t, const std::string& prefix, const std::string& path,
             std::map<std::string, ConfigFile::Value>& values,
             std::map<std::string, int>& sections) {
  for (const auto& [k, node] : t) {
    const std::string key = prefix + std::string(k.str());
    if (const toml::table* sub = node.as_table()) {
      sections[key] = line_of(node);
      flatten(*sub, key + ".", path, values, sections);
      continue;
    }
    std::optional<Scalar> v = scalar_of(node);
    if (!v)
      throw Error("{} is {}: no key of a run file takes one", key,
                  node.is_array() ? "a list" : "a date or time")
          .at(path, line_of(node));
    values[key] = {std::move(*v), path, line_of(node), {}};
  }
}

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
  return s;
}

bool is_dotted_key(std::string_view key) {
  bool at_start = true, dot = false;
  for (const char c : key) {
    if (c == '.') {
      if (at_start) return false;
      dot = at_start = true;
    } else if (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-') {
      at_start = false;
    } else {
      return false;
    }
  }
  return dot && !at_start;
}

/// The value of an override: one TOML scalar, or else a string as it stands.
Scalar override_value(const std::string& text, const std::string& whole) {
  const bool quoted = !text.empty() && (text.front() == '"' || text.front() == '\'');
  try {
    const toml::table t = toml::parse("x = " + text);
    const toml::node* x = t.get("x");
    if (t.size() == 1 && x)
      if (std::optional<Scalar> v = scalar_of(*x)) return std::move(*v);
  } catch (const toml::parse_error& e) {
    if (quoted)
      throw Error("the value is no TOML string: {}", e.description()).at("--set " + whole);
  }
  try {
    const toml::table t = toml::parse("x = " + toml_value(text));
  } catch (const toml::parse_error& e) {
    throw Error("the value is no text: {}", e.description()).at("--set " + whole);
  }
  return text;
}

void apply_override(const std::string& whole, std::map<std::string, ConfigFile::Value>& values) {
  const std::string::size_type equals = whole.find('=');
  const std::string key(trimmed(std::string_view(whole).substr(0, equals)));
  if (equals == std::string::npos || !is_dotted_key(key))
    throw Error("an override must read section.key=value, not '{}'", whole)
        .at("--set " + whole)
        .hint("for example: --set train.steps=10");
  const std::string text(trimmed(std::string_view(whole).substr(equals + 1)));
  values[key] = {override_value(text, whole), "--set", 0, text};
}

/// Edit distance in which two neighbours that changed places count once (optimal string alignment).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

std::string lower(std::string_view s) {
  std::string t(s);
  for (char& c : t) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return t;
}

}  // namespace

ConfigFile ConfigFile::read(const std::string& path, std::span<const std::string> overrides) {
  if (is_folder(path))
    throw Error("a run file was expected, but this is a folder")
        .at(path)
        .hint("name the .toml file in it");
  if (!exists(path))
    throw Error("there is no such file").at(path).hint("configs/ holds examples of run files");
  return parse(read_file(path), path, overrides);
}

ConfigFile ConfigFile::parse(std::string_view text, const std::string& path,
                             std::span<const std::string> overrides) {
  ConfigFile f;
  f.path_ = path;
  flatten(parse_toml(text, path), "", path, f.values_, f.sections_);
  for (const std::string& o : overrides) apply_override(o, f.values_);
  return f;
}

const ConfigFile::Value* ConfigFile::find(const std::string& key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

Error ConfigFile::error_at(const std::string& key, Error e) const {
  const Value* v = find(key);
  if (!v) {
    e.at(path_);
  } else if (v->line == 0) {
    e.at(fmt::format("{} {}={}", v->file, key, v->text));
  } else {
    e.at(v->file, v->line);
  }
  return e;
}

std::string nearest(std::string_view word, std::span<const std::string> known) {
  constexpr std::size_t kLongest = 200;
  if (word.empty() || word.size() > kLongest) return {};
  const std::string wanted = lower(word);
  std::size_t best = std::max<std::size_t>(1, wanted.size() / 3) + 1;
  std::string found;
  for (const std::string& k : known) {
    const std::size_t d = distance(wanted, lower(k));
    if (d >= best) continue;
    best = d;
    found = k;
  }
  if (!found.empty() || wanted.size() < 3) return found;
  for (const std::string& k : known)
    if (lower(k).find(wanted) != std::string::npos) return k;
  return {};
}

}  // namespace lathe
