#pragma once
// What `lathe number` reads and writes, shared by its single values and its blocks.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/format.h"

namespace lathe::cli {

struct NumberOptions {
  std::vector<std::string> values;
  std::string format, table, block, tie, overflow = "saturate", rule = "floor", amax;
  i64 seed = 1;
  bool json = false;
};

/// A word of the input: a decimal number or a C hexadecimal float (with a 'p' or a '.'), which
/// stand for the nearest double, inf, nan, or a code ("0x7e").
struct Number {
  double value = 0;
  std::optional<u32> code = {};
};

/// Throws Error when the word is none, or a code has more bits than the format.
Number read_number(const std::string& word, numerics::Format f);

/// Reads standard input line by line, blank ones left out, and hands each to `take`, trimmed. An
/// Error thrown by it gets the line.
void for_each_line(const std::function<void(const std::string& word, i64 index)>& take);

/// The shortest decimal that reads back as x; "inf", "-inf", "nan".
std::string number_text(double x);
/// The same for JSON: in quotes where x is not finite.
std::string number_json(double x);
/// "0x7e": as many digits as the format has.
std::string code_text(numerics::Format f, u32 code);

/// even, away or stochastic; "" is `usual`. Throws Error naming the nearest.
numerics::Tie tie_of(const std::string& name, numerics::Tie usual);

/// The random word of the value with this index.
u32 random_word(i64 seed, i64 index);

/// The position of `name` among `known`. Throws Error naming the nearest; `what`: "tie".
std::size_t choose(const std::string& name, const char* what,
                   const std::vector<std::string>& known);

/// Prints the block that these values make.
void print_block(const NumberOptions& o, const std::vector<std::string>& words);

}  // namespace lathe::cli
