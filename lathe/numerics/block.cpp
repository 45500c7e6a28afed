#include "lathe/numerics/block.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/scale.h"

namespace lathe::numerics {

namespace {

Cast element_cast(BlockKind kind, const BlockOptions& o) {
  return {.tie = o.tie.value_or(kind == BlockKind::hif4 ? Tie::away : Tie::even)};
}

u32 word(const BlockOptions& o, std::size_t n) { return n < o.random.size() ? o.random[n] : 0; }

void encode_mx(Block& b, std::span<const float> values, const BlockOptions& o) {
  const Format f = info(b.kind).element;
  b.scale = mx_scale(o.rule, f, amax(values), o.bad);
  // In FP64 the product with a power of two is exact.
  const double multiplier = b.scale == info(Format::e8m0).nan
                                ? std::numeric_limits<double>::quiet_NaN()
                                : power_of_two(127 - b.scale);
  for (std::size_t n = 0; n < values.size(); ++n) {
    u32 code = encode(f, values[n] * multiplier, element_cast(b.kind, o), word(o, n));
    if (f == Format::mxint8 && code == 0x80) code = 0x81;
    b.codes.push_back(static_cast<u8>(code));
  }
}

u8 nvfp4_element(float x, float inverse, const Cast& c, u32 random) {
  return static_cast<u8>(encode(Format::e2m1, x * inverse, c, random));
}

void encode_nvfp4_block(Block& b, std::span<const float> values, const BlockOptions& o) {
  const float a = amax(values);
  b.tensor = nvfp4_tensor(o.amax.value_or(a));
  b.scale = nvfp4_scale(b.tensor, a, o.bad);
  const float inverse = nvfp4_inverse(b.tensor, b.scale);
  for (std::size_t n = 0; n < values.size(); ++n)
    b.codes.push_back(nvfp4_element(values[n], inverse, element_cast(b.kind, o), word(o, n)));
}

double nvfp4_value(const Nvfp4Tensor& t, u8 scale, u8 code) {
  const double v = decode(Format::e2m1, code) * decode(Format::e4m3, scale);
  return std::isfinite(t.amax) && t.amax > 0 ? v * t.amax / 2688 : v;
}

double to_bf16(double x) { return decode(Format::bf16, encode(Format::bf16, x, {})); }

u8 hif4_base(float amax, BadAmax bad) {
  if (std::isnan(amax) || (std::isinf(amax) && bad == BadAmax::strict)) return 0xff;
  const FormatInfo& scale = info(Format::e6m2);
  const double base = std::clamp(to_bf16(amax * to_bf16(1.0 / 7)), scale.smallest, scale.largest);
  return static_cast<u8>(encode(Format::e6m2, base, {}));
}

/// The largest magnitude of values [first, first + count), of those there are.
double amax_of(std::span<const float> values, std::size_t first, std::size_t count) {
  if (first >= values.size()) return 0;
  return amax(values.subspan(first, std::min(count, values.size() - first)));
}

/// The scheme of arXiv 2602.11287: the flags say which parts of the block need a larger step.
void encode_hif4(Block& b, std::span<const float> values, const BlockOptions& o) {
  b.scale = hif4_base(amax(values), o.bad);
  const double reciprocal = to_bf16(1 / decode(Format::e6m2, b.scale));
  for (std::size_t n = 0; n < 8; ++n)
    if (amax_of(values, 8 * n, 8) * reciprocal >= 4) b.flags8 = static_cast<u8>(b.flags8 | 1U << n);
  for (std::size_t n = 0; n < 16; ++n) {
    const double half = (b.flags8 >> (n / 2) & 1) != 0 ? 0.5 : 1;
    if (amax_of(values, 4 * n, 4) * reciprocal * half >= 2)
      b.flags4 = static_cast<u16>(b.flags4 | 1U << n);
  }
  for (std::size_t n = 0; n < values.size(); ++n) {
    const int flags = (b.flags8 >> (n / 8) & 1) + (b.flags4 >> (n / 4) & 1);
    const double x = values[n] * reciprocal * power_of_two(-flags);
    b.codes.push_back(
        static_cast<u8>(encode(Format::s1p2, x, element_cast(b.kind, o), word(o, n))));
  }
}

i64 parts(i64 length) { return (length + 15) / 16; }

}  // namespace

BlockKind block_kind(const std::string& name) {
  std::vector<std::string> known;
  for (const BlockInfo& i : kBlocks) {
    if (i.name == name) return i.kind;
    known.emplace_back(i.name);
  }
  const std::string near = nearest(name, known);
  throw Error("there is no block format \"{}\"", name)
      .hint("{}known: {}", near.empty() ? "" : fmt::format("did you mean \"{}\"? ", near),
            fmt::join(known, ", "));
}

Block encode_block(BlockKind kind, std::span<const float> values, const BlockOptions& o) {
  CHECK(std::ssize(values) <= info(kind).size, "{} values in a block of {}", values.size(),
        info(kind).size);
  Block b;
  b.kind = kind;
  if (kind == BlockKind::nvfp4)
    encode_nvfp4_block(b, values, o);
  else if (kind == BlockKind::hif4)
    encode_hif4(b, values, o);
  else
    encode_mx(b, values, o);
  return b;
}

std::vector<double> decode_block(const Block& b) {
  std::vector<double> out;
  const double scale = decode(info(b.kind).scale, b.scale);
  for (std::size_t n = 0; n < b.codes.size(); ++n) {
    const double v = decode(info(b.kind).element, b.codes[n]);
    const int flags = (b.flags8 >> (n / 8) & 1) + (b.flags4 >> (n / 4) & 1);
    out.push_back(b.kind == BlockKind::nvfp4 ? nvfp4_value(b.tensor, b.scale, b.codes[n])
                                             : scale * power_of_two(flags) * v);
  }
  return out;
}

Nvfp4Matrix encode_nvfp4(std::span<const float> values, i64 rows, i64 cols, bool tiles,
                         const BlockOptions& o) {
  CHECK(std::ssize(values) == rows * cols, "{} values in {} x {}", values.size(), rows, cols);
  Nvfp4Matrix m{rows, cols, tiles, nvfp4_tensor(o.amax.value_or(amax(values))), {}, {}};
  m.codes.resize(values.size());
  const Cast c = element_cast(BlockKind::nvfp4, o);
  const i64 height = tiles ? 16 : 1;
  for (i64 top = 0; top < rows; top += height)
    for (i64 left = 0; left < cols; left += 16) {
      const i64 bottom = std::min(rows, top + height), right = std::min(cols, left + 16);
      std::vector<float> block;
      for (i64 r = top; r < bottom; ++r)
        block.insert(block.end(), values.begin() + r * cols + left,
                     values.begin() + r * cols + right);
      m.scales.push_back(nvfp4_scale(m.tensor, amax(block), o.bad));
      const float inverse = nvfp4_inverse(m.tensor, m.scales.back());
      for (i64 r = top; r < bottom; ++r)
        for (i64 n = left; n < right; ++n) {
          const auto at = static_cast<std::size_t>(r * cols + n);
          m.codes[at] = nvfp4_element(values[at], inverse, c, word(o, at));
        }
    }
  return m;
}

double Nvfp4Matrix::at(i64 row, i64 col) const {
  const i64 scale = (tiles ? row / 16 : row) * parts(cols) + col / 16;
  return nvfp4_value(tensor, scales[static_cast<std::size_t>(scale)],
                     codes[static_cast<std::size_t>(row * cols + col)]);
}

Tile encode_tile(std::span<const float> values, bool power_of_two) {
  Tile t{tile_scale(amax(values), power_of_two), {}};
  for (const float x : values)
    t.codes.push_back(static_cast<u8>(encode(Format::e4m3, x * t.scale.encode, {})));
  return t;
}

}  // namespace lathe::numerics
