#pragma once
// Errors by who can act. Error: the user or the world, thrown, caught once in cli/main.cpp. CHECK:
// we are wrong; prints the values and aborts; no input may ever reach one.

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace lathe {

/// Something the user or the world can mend. Carries where it is and what to type.
class Error : public std::runtime_error {
 public:
  template <class... A>
  explicit Error(fmt::format_string<A...> text, A&&... args)
      : std::runtime_error(fmt::format(text, std::forward<A>(args)...)) {}

  /// Names the place: a file, and a line where there is one (0: none).
  Error& at(std::string file, int line = 0) {
    where_ = line > 0 ? fmt::format("{}:{}", file, line) : std::move(file);
    return *this;
  }
  template <class... A>
  Error& hint(fmt::format_string<A...> text, A&&... args) {
    hint_ = fmt::format(text, std::forward<A>(args)...);
    return *this;
  }

  const std::string& where() const { return where_; }
  const std::string& hint() const { return hint_; }
  /// "error: …\n  --> where\n  hint: …\n", without the lines that are empty.
  std::string report() const {
    std::string s = fmt::format("error: {}\n", what());
    if (!where_.empty()) s += fmt::format("  --> {}\n", where_);
    if (!hint_.empty()) s += fmt::format("  hint: {}\n", hint_);
    return s;
  }

 private:
  std::string where_, hint_;
};

/// Prints and aborts. Use CHECK.
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& values) noexcept;

}  // namespace lathe

/// CHECK(condition, "format", values…): always on.
#define CHECK(condition, ...)                                                            \
  do {                                                                                   \
    if (!(condition)) [[unlikely]]                                                       \
      ::lathe::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
