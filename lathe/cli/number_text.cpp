#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <system_error>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/error.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/cli/number.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"

namespace lathe::cli {

namespace {

bool is_code(const std::string& word) {
  return word.size() > 2 && word[0] == '0' && (word[1] == 'x' || word[1] == 'X') &&
         word.find_first_of("pP.") == std::string::npos;
}

u32 read_code(const std::string& word, numerics::Format f) {
  u64 code = 0;
  const auto r = std::from_chars(word.data() + 2, word.data() + word.size(), code, 16);
  const bool digits = r.ptr == word.data() + word.size();
  if (!digits) throw Error("\"{}\" is not a hexadecimal code", word);
  const numerics::FormatInfo& i = numerics::info(f);
  if (r.ec != std::errc() || code > i.mask())
    throw Error("the code {} has more than the {} bits of {}", word, i.bits, i.name)
        .hint("a hexadecimal float has a 'p', such as 0x1.8p3");
  return static_cast<u32>(code);
}

std::string trimmed(const std::string& line) {
  const char* blanks = " \t\r";
  const std::size_t begin = line.find_first_not_of(blanks);
  if (begin == std::string::npos) return {};
  return line.substr(begin, line.find_last_not_of(blanks) - begin + 1);
}

/// Whether reading gives bytes or the end, and no error as from a folder.
bool readable(int descriptor) {
  struct stat s{};
  return fstat(descriptor, &s) == 0 && !S_ISDIR(s.st_mode);
}

}  // namespace

Number read_number(const std::string& word, numerics::Format f) {
  if (is_code(word)) {
    const u32 code = read_code(word, f);
    return {numerics::decode(f, code), code};
  }
  if ((word.starts_with('-') || word.starts_with('+')) && is_code(word.substr(1)))
    throw Error("\"{}\" is a code with a sign", word)
        .hint("codes hold their own sign; the hexadecimal float is {}p0", word);
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  const bool whole = end == word.c_str() + word.size();
  if (!whole || word.empty() || std::isspace(static_cast<unsigned char>(word[0])))
    throw Error("\"{}\" is not a number", word)
        .hint("write 0.1, -1e-3, 0x1.8p3, inf, nan, or a code such as 0x7e");
  return {value};
}

void for_each_line(const std::function<void(const std::string& word, i64 index)>& take) {
  i64 index = 0;
  int number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ++number;
    if (number == 1 && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);  // a mark of UTF-8
    const std::string word = trimmed(line);
    if (word.empty()) continue;
    try {
      take(word, index++);
    } catch (Error& e) {
      e.at("standard input", number);
      throw;
    }
  }
  if (std::cin.bad() || (index == 0 && number == 0 && !readable(STDIN_FILENO)))
    throw Error("standard input cannot be read").hint("give it a file, or values as arguments");
}

std::string number_text(double x) {
  if (std::isnan(x)) return "nan";
  return fmt::format("{}", x);
}

std::string number_json(double x) {
  if (x == 0 && std::signbit(x)) return "-0.0";  // many readers take -0 for a whole number, 0
  return std::isfinite(x) ? number_text(x) : '"' + number_text(x) + '"';
}

std::string code_text(numerics::Format f, u32 code) {
  return fmt::format("0x{:0{}x}", code, (numerics::info(f).bits + 3) / 4);
}

std::size_t choose(const std::string& name, const char* what,
                   const std::vector<std::string>& known) {
  for (std::size_t n = 0; n < known.size(); ++n)
    if (known[n] == name) return n;
  const std::string near = nearest(name, known);
  throw Error("there is no {} \"{}\"", what, name)
      .hint("{}known: {}", near.empty() ? "" : fmt::format("did you mean \"{}\"? ", near),
            fmt::join(known, ", "));
}

numerics::Tie tie_of(const std::string& name, numerics::Tie usual) {
  if (name.empty()) return usual;
  constexpr numerics::Tie kTies[]{numerics::Tie::even, numerics::Tie::away,
                                  numerics::Tie::stochastic};
  return kTies[choose(name, "tie", {"even", "away", "stochastic"})];
}

u32 random_word(i64 seed, i64 index) {
  const Rng rng{static_cast<u64>(seed), Draw::rounding, 0};
  return rng.bits(static_cast<u64>(index))[0];
}

}  // namespace lathe::cli
