#pragma once
// A run's configuration: TOML to plain structs. One visit per struct serves reading, printing,
// hashing and the reference page:
//
//   template <class V> void visit(V& v, TrainConfig& c) {
//     v("steps", c.steps, "optimizer steps of the whole run", at_least(1));
//   }
//
// An unknown key is an error that names the nearest known one. `--set section.key=value` is the
// only override. Nothing reads the environment.

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/view.h"

namespace lathe {

/// What a value must satisfy, with how to say it.
struct Rule {
  double min = -1e300, max = 1e300;
  std::vector<std::string> choices = {};  // of a string; empty: any
  std::string or_ending = {};             // beside the choices, any string that ends so
};
inline Rule at_least(double min) { return {.min = min}; }
inline Rule between(double min, double max) { return {.min = min, .max = max}; }
inline Rule one_of(std::vector<std::string> choices) { return {.choices = std::move(choices)}; }

/// A parsed file with its overrides: values by dotted key ("train.steps"), each with its line. An
/// override's value is read as TOML; what is no TOML value, such as a bare word, is a string.
class ConfigFile {
 public:
  /// Reads a TOML file; a syntax error throws Error with file and line.
  static ConfigFile read(const std::string& path, std::span<const std::string> overrides = {});
  /// The same from text; `path` is only for messages.
  static ConfigFile parse(std::string_view text, const std::string& path,
                          std::span<const std::string> overrides = {});

  struct Value {
    std::variant<bool, i64, double, std::string> value;
    std::string file;  // or "--set"
    int line = 0;
    std::string text;  // of an override: what stands behind '=', as typed
  };
  const Value* find(const std::string& key) const;
  const std::map<std::string, Value>& values() const { return values_; }
  /// Tables of the file by dotted name, each with its line, even when they hold nothing.
  const std::map<std::string, int>& sections() const { return sections_; }
  const std::string& path() const { return path_; }

  /// An Error located at the key's line (or at the file if the key is not set): for checks across
  /// fields. Throw what it returns.
  Error error_at(const std::string& key, Error e) const;

 private:
  std::map<std::string, Value> values_;
  std::map<std::string, int> sections_;
  std::string path_;
};

/// One key as the reference page lists it.
struct KeyDoc {
  std::string key, type, value, about;  // value: the default, as TOML writes it
  std::vector<std::string> choices;
};

/// The known name nearest to a misspelt one, by edit distance; empty when none is near.
std::string nearest(std::string_view word, std::span<const std::string> known);

}  // namespace lathe
