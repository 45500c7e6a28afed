#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/cli/number.h"
#include "lathe/numerics/block.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/scale.h"

namespace lathe::cli {

namespace {

using numerics::Block;
using numerics::BlockInfo;
using numerics::BlockKind;

/// The codes of a block of four-bit elements as they lie in memory: two a byte, the first below.
std::string packed(const Block& b) {
  std::string s;
  for (std::size_t n = 0; n < b.codes.size(); n += 2) {
    const int high = n + 1 < b.codes.size() ? b.codes[n + 1] : 0;
    s += fmt::format("{:02x}", b.codes[n] | high << 4);
  }
  return s;
}

bool is_nibbles(const Block& b) { return numerics::info(info(b.kind).element).bits == 4; }

std::string error_json(double decoded, float input) {
  const double error = decoded - input;
  return std::isfinite(error) ? number_json(error) : "null";
}

void print_json(const Block& b, const std::vector<float>& values) {
  const BlockInfo& i = info(b.kind);
  const std::vector<double> decoded = decode_block(b);
  fmt::print("{{\"block\":\"{}\",\"scale\":\"{}\",\"scale_value\":{}", i.name,
             code_text(i.scale, b.scale), number_json(numerics::decode(i.scale, b.scale)));
  if (b.kind == BlockKind::nvfp4)
    fmt::print(",\"tensor_amax\":{},\"tensor_scale\":{}", number_json(b.tensor.amax),
               number_json(b.tensor.encode));
  if (b.kind == BlockKind::hif4)
    fmt::print(",\"flags8\":\"0x{:02x}\",\"flags4\":\"0x{:04x}\"", b.flags8, b.flags4);
  if (is_nibbles(b)) fmt::print(",\"packed\":\"{}\"", packed(b));
  fmt::print(",\"elements\":[");
  for (std::size_t n = 0; n < values.size(); ++n)
    fmt::print("{}{{\"input\":{},\"code\":\"{}\",\"value\":{},\"error\":{}}}", n > 0 ? "," : "",
               number_json(values[n]), code_text(i.element, b.codes[n]), number_json(decoded[n]),
               error_json(decoded[n], values[n]));
  fmt::print("]}}\n");
}

void print_text(const Block& b, const std::vector<float>& values) {
  const BlockInfo& i = info(b.kind);
  const std::vector<double> decoded = decode_block(b);
  fmt::print("{}: scale {} = {}\n", i.name, code_text(i.scale, b.scale),
             number_text(numerics::decode(i.scale, b.scale)));
  if (b.kind == BlockKind::nvfp4)
    fmt::print("tensor: amax {}, values times {} before the scale\n", number_text(b.tensor.amax),
               number_text(b.tensor.encode));
  if (b.kind == BlockKind::hif4)
    fmt::print("flags: of eights 0x{:02x}, of fours 0x{:04x}\n", b.flags8, b.flags4);
  if (is_nibbles(b)) fmt::print("packed, first value lowest: {}\n", packed(b));
  fmt::print("{:>16} {:>6} {:>14} {:>24} {:>14}\n", "input", "code", "element", "value", "error");
  for (std::size_t n = 0; n < values.size(); ++n)
    fmt::print("{:>16} {:>6} {:>14} {:>24} {:>14.6g}\n", fmt::format("{}", values[n]),
               code_text(i.element, b.codes[n]),
               number_text(numerics::decode(i.element, b.codes[n])), number_text(decoded[n]),
               decoded[n] - double{values[n]});
}

float read_amax(const std::string& word) {
  const double amax = read_number(word, numerics::Format::f32).value;
  if (!(amax >= 0)) throw Error("--amax {}: the largest magnitude of a tensor is 0 or more", word);
  return static_cast<float>(amax);
}

}  // namespace

void print_block(const NumberOptions& o, const std::vector<std::string>& words) {
  const BlockKind kind = numerics::block_kind(o.block);
  const BlockInfo& i = info(kind);
  if (words.empty()) throw Error("a block of {} needs values", i.name).hint("write them behind it");
  if (std::ssize(words) > i.size)
    throw Error("{} values are more than the {} of a block of {}", words.size(), i.size, i.name);
  numerics::BlockOptions options;
  constexpr numerics::MxRule kRules[]{numerics::MxRule::floor, numerics::MxRule::round_up,
                                      numerics::MxRule::ceil, numerics::MxRule::even};
  options.rule = kRules[choose(o.rule, "rule", {"floor", "round-up", "ceil", "even"})];
  if (!o.tie.empty()) options.tie = tie_of(o.tie, numerics::Tie::even);
  if (!o.amax.empty() && kind != BlockKind::nvfp4)
    throw Error("--amax is the tensor's, which {} does not look at", i.name)
        .hint("it goes with --block nvfp4");
  if (!o.amax.empty()) options.amax = read_amax(o.amax);

  std::vector<float> values;
  std::vector<u32> random;
  for (const std::string& w : words) {
    random.push_back(random_word(o.seed, std::ssize(values)));
    values.push_back(static_cast<float>(read_number(w, numerics::Format::f32).value));
  }
  options.random = random;
  const Block b = encode_block(kind, values, options);
  o.json ? print_json(b, values) : print_text(b, values);
}

}  // namespace lathe::cli
