#include "lathe/cli/number.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/cli/command.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"

namespace lathe::cli {

namespace {

using numerics::Format;

void declare(CLI::App& a, NumberOptions& o) {
  a.add_option(
       "values", o.values,
       "decimal numbers, hexadecimal floats (0x1.8p3), inf, nan, or codes (0x7e); none: one "
       "a line on standard input")
      ->type_name("VALUE");
  a.add_option("--format", o.format,
               "bf16 fp16 tf32 fp32 e4m3 e5m2 e2m3 e3m2 e2m1 mxint8 e8m0 hif8 hif4 e6m2 e4m3fnuz "
               "e5m2fnuz");
  a.add_option("--tie", o.tie,
               "even, away or stochastic; default: as the format has it, away in hif8 and hif4");
  a.add_option("--overflow", o.overflow,
               "saturate: the largest value; nonsaturate: infinity or NaN where there is one")
      ->capture_default_str();
  a.add_option("--seed", o.seed, "of stochastic rounding")->capture_default_str();
  a.add_option("--table", o.table, "print every code of a format")->type_name("FORMAT");
  a.add_option("--block", o.block,
               "encode the values, as FP32, into one block: mxfp8 mxfp8e5m2 mxfp6e2m3 mxfp6e3m2 "
               "mxfp4 mxint8 nvfp4 hif4")
      ->type_name("BLOCK");
  a.add_option("--rule", o.rule, "of a block's power-of-two scale: floor, round-up, ceil or even")
      ->capture_default_str();
  a.add_option("--amax", o.amax,
               "largest magnitude of the tensor, for nvfp4; default: the block's");
  a.add_flag("--json", o.json, "print JSON: one object for each value");
}

/// The values of a format next to one of them; NaN where there is none.
class Neighbours {
 public:
  explicit Neighbours(Format f) : format_(f) {
    if (numerics::info(f).bits <= 16) values_ = numerics::finite_values(f);
  }
  double below(double v) const { return -beside(v, -1); }
  double above(double v) const { return beside(v, 1); }

 private:
  /// The next value along the direction, times the direction.
  double beside(double v, int direction) const {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    if (!std::isfinite(v)) return kNone;
    if (values_.empty()) return beside_pattern(v * direction);
    const auto at = std::lower_bound(values_.begin(), values_.end(), v) - values_.begin();
    const auto next = at + direction;
    return next < 0 || next >= std::ssize(values_)
               ? kNone
               : direction * values_[static_cast<std::size_t>(next)];
  }
  /// FP32 and TF32 are too many to list, but their patterns ascend.
  double beside_pattern(double v) const {
    const numerics::FormatInfo& i = numerics::info(format_);
    const u32 step = u32{1} << i.unused_bits();
    if (v == i.largest) return std::numeric_limits<double>::quiet_NaN();
    const u32 code = numerics::encode(format_, v == 0 ? 0 : v, {});
    return numerics::decode(format_, v < 0 ? code - step : code + step) + 0.0;  // no -0
  }

  Format format_;
  std::vector<double> values_;
};

class Printer {
 public:
  explicit Printer(const NumberOptions& o)
      : o_(o), format_(numerics::format(o.format)), neighbours_(format_) {
    cast_ = numerics::usual_cast(format_);
    cast_.tie = tie_of(o.tie, format_ == Format::s1p2 ? numerics::Tie::away : cast_.tie);
    if (choose(o.overflow, "overflow", {"saturate", "nonsaturate"}) == 1)
      cast_.overflow = numerics::Overflow::nonsaturate;
  }

  void print(const std::string& word, i64 index) {
    const Number n = read_number(word, format_);
    const u32 code =
        n.code ? *n.code : numerics::encode(format_, n.value, cast_, random_word(o_.seed, index));
    const double value = numerics::decode(format_, code), error = value - n.value;
    const double below = neighbours_.below(value), above = neighbours_.above(value);
    const auto or_null = [](double x) { return std::isfinite(x) ? number_json(x) : "null"; };
    if (o_.json) {
      fmt::print(
          "{{\"input\":{},\"code\":\"{}\",\"value\":{},\"error\":{},\"below\":{},\"above\":{}"
          "}}\n",
          number_json(n.value), code_text(format_, code), number_json(value), or_null(error),
          or_null(below), or_null(above));
      return;
    }
    const auto or_none = [](double x) { return std::isfinite(x) ? number_text(x) : "none"; };
    if (index == 0)
      fmt::print("{:>22} {:>10} {:>22} {:>13} {:>22} {:>22}\n", "input", "code", "value", "error",
                 "next below", "next above");
    fmt::print("{:>22} {:>10} {:>22} {:>13.6g} {:>22} {:>22}\n", number_text(n.value),
               code_text(format_, code), number_text(value), error, or_none(below), or_none(above));
  }

 private:
  const NumberOptions& o_;
  Format format_;
  Neighbours neighbours_;
  numerics::Cast cast_;
};

void print_table(const NumberOptions& o) {
  const Format f = numerics::format(o.table);
  const numerics::FormatInfo& i = numerics::info(f);
  if (i.bits > 16)
    throw Error("{} has {} bits: too many codes to list", i.name, i.bits)
        .hint("ask for single codes: lathe number --format {} 0x3f800000", i.name);
  if (o.json)
    fmt::print(
        "{{\"format\":\"{}\",\"bits\":{},\"largest\":{},\"min_normal\":{},\"smallest\":{},"
        "\"codes\":[",
        i.name, i.bits, number_json(i.largest), number_json(i.min_normal), number_json(i.smallest));
  else
    fmt::print("{}: {} bits, largest {}, smallest normal {}, smallest {}\n", i.name, i.bits,
               number_text(i.largest), number_text(i.min_normal), number_text(i.smallest));
  for (u32 code = 0; code <= i.mask(); ++code) {
    const double v = numerics::decode(f, code);
    if (o.json)
      fmt::print("{}{{\"code\":\"{}\",\"value\":{}}}", code > 0 ? "," : "", code_text(f, code),
                 number_json(v));
    else
      fmt::print("{} {}\n", code_text(f, code), number_text(v));
  }
  if (o.json) fmt::print("]}}\n");
}

int run(const NumberOptions& o) {
  if (!o.format.empty() + !o.table.empty() + !o.block.empty() != 1)
    throw Error("lathe number takes one of --format, --table and --block")
        .hint("try: lathe number --format e4m3 17.5");
  if (!o.table.empty()) {
    if (!o.values.empty())
      throw Error("--table prints a whole format and takes no values")
          .hint("for values: lathe number --format {} {}", o.table, o.values.front());
    print_table(o);
    return 0;
  }
  if (!o.block.empty()) {
    if (o.overflow != "saturate")
      throw Error("elements of a block always saturate").hint("leave --overflow out");
    std::vector<std::string> words = o.values;
    if (words.empty())
      for_each_line([&](const std::string& word, i64 /*index*/) { words.push_back(word); });
    print_block(o, words);
    return 0;
  }
  Printer p(o);
  for (std::size_t n = 0; n < o.values.size(); ++n) p.print(o.values[n], static_cast<i64>(n));
  if (o.values.empty())
    for_each_line([&](const std::string& word, i64 index) { p.print(word, index); });
  return 0;
}

}  // namespace

void add_number(Commands& c) {
  c.add<NumberOptions>("number", "show the exact bits of numbers in low-precision formats",
                       "lathe number --format e4m3 17.5 0x1.8p-9 0x7e\n"
                       "lathe number --format hif8 --json < numbers.txt\n"
                       "lathe number --table e2m1\n"
                       "lathe number --block nvfp4 --amax 10 0.1 0.2 -0.3\n"
                       "lathe number --format e5m2 -- -inf -.5\n"
                       "\nWhere a value begins with - and no digit, put -- before all values.\n",
                       declare, run);
}

}  // namespace lathe::cli
