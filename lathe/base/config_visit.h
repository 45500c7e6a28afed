#pragma once
// The visitors of configuration structs. Each takes v(key, field, about) or v(key, field, about,
// rule) and v.section(name, struct); fields are bool, int, i64, double or std::string.

#include <algorithm>
#include <concepts>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/view.h"

namespace lathe {

/// What all visitors share: the dotted name of where they are.
class Visitor {
 protected:
  std::string full(const char* key) const {
    return section_.empty() ? std::string(key) : section_ + "." + key;
  }
  template <class Self, class S>
  static void descend(Self& self, const char* name, S& s) {
    std::string outer = self.full(name);
    std::swap(self.section_, outer);
    visit(self, s);
    std::swap(self.section_, outer);
  }
  std::string section_;
};

/// Fills structs from a file. Wrong type, out of range, not among the choices: throws Error with
/// file and line. Keys that the file does not set keep their values.
class Reader : Visitor {
 public:
  /// `help` tells of a key that is near none.
  explicit Reader(const ConfigFile& file, std::string help = "lathe train --keys lists every key")
      : file_(file), help_(std::move(help)) {}

  template <class T>
  void operator()(const char* key, T& field, const char* /*about*/, const Rule& rule = {}) {
    const std::string name = full(key);
    known_.push_back(name);
    const ConfigFile::Value* v = file_.find(name);
    if (!v) return;
    if constexpr (std::same_as<T, int>)
      field = static_cast<int>(whole(name, *v, narrowed(rule)));
    else if constexpr (std::same_as<T, i64>)
      field = whole(name, *v, rule);
    else if constexpr (std::same_as<T, double>)
      field = number(name, *v, rule);
    else if constexpr (std::same_as<T, bool>)
      field = truth(name, *v);
    else
      field = text(name, *v, rule);
  }
  template <class S>
  void section(const char* name, S& s) {
    known_sections_.push_back(full(name));
    descend(*this, name, s);
  }
  /// Called last: throws Error for the first key or section of the file that nothing asked for,
  /// naming the nearest known one.
  void finish() const;

 private:
  friend class Visitor;
  static Rule narrowed(Rule r) {
    r.min = std::max(r.min, double{std::numeric_limits<int>::min()});
    r.max = std::min(r.max, double{std::numeric_limits<int>::max()});
    return r;
  }
  i64 whole(const std::string& name, const ConfigFile::Value& v, const Rule& rule) const;
  double number(const std::string& name, const ConfigFile::Value& v, const Rule& rule) const;
  bool truth(const std::string& name, const ConfigFile::Value& v) const;
  std::string text(const std::string& name, const ConfigFile::Value& v, const Rule& rule) const;
  void finish_sections() const;

  const ConfigFile& file_;
  std::string help_;
  std::vector<std::string> known_, known_sections_;
};

/// A value as TOML writes it. Reals are the shortest that read back to the same bits.
std::string toml_value(bool b);
std::string toml_value(i64 i);
std::string toml_value(double d);
std::string toml_value(const std::string& s);

/// Lists every key with its value as TOML writes it: for printing, hashing and comparing.
class Lister : Visitor {
 public:
  template <class T>
  void operator()(const char* key, const T& field, const char* /*about*/, const Rule& = {}) {
    if constexpr (std::same_as<T, int>)
      values_.emplace_back(full(key), toml_value(i64{field}));
    else
      values_.emplace_back(full(key), toml_value(field));
  }
  template <class S>
  void section(const char* name, S& s) {
    descend(*this, name, s);
  }
  const std::vector<std::pair<std::string, std::string>>& values() const { return values_; }

 private:
  friend class Visitor;
  std::vector<std::pair<std::string, std::string>> values_;
};

/// "[section]" and "key = value" lines from what a Lister found.
std::string to_toml(const std::vector<std::pair<std::string, std::string>>& values);

/// Lists every key with its type, default and meaning.
class Documenter : Visitor {
 public:
  template <class T>
  void operator()(const char* key, const T& field, const char* about, const Rule& rule = {}) {
    constexpr bool kWhole = std::same_as<T, i64> || std::same_as<T, int>;
    const char* type = kWhole                    ? "whole number"
                       : std::same_as<T, double> ? "number"
                       : std::same_as<T, bool>   ? "true or false"
                                                 : "string";
    std::string value;
    if constexpr (std::same_as<T, int>)
      value = toml_value(i64{field});
    else
      value = toml_value(field);
    keys_.push_back({full(key), type, value, about, rule.choices});
  }
  template <class S>
  void section(const char* name, S& s) {
    descend(*this, name, s);
  }
  const std::vector<KeyDoc>& keys() const { return keys_; }

 private:
  friend class Visitor;
  std::vector<KeyDoc> keys_;
};

}  // namespace lathe
