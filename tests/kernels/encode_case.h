#pragma once
// What encoding must give, one element after the other, from the scalar references of numerics/.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/encode.h"
#include "lathe/kernels/kernels.h"
#include "lathe/numerics/block.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/scale.h"
#include "tests/kernels/row_case.h"

namespace lathe::kernels {

using numerics::Encoding;
using numerics::Format;
using numerics::Scaling;
using numerics::Tie;

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kMinNormal = std::numeric_limits<float>::min();
inline constexpr float kFloatLargest = std::numeric_limits<float>::max();

/// Subnormals count as zero.
inline float flush(double x) {
  const auto f = static_cast<float>(x);
  return std::fabs(f) < kMinNormal ? std::copysign(0.0F, f) : f;
}

/// The bits of a float, every NaN being the same.
inline u32 code_bits(double x) { return std::bit_cast<u32>(x == x ? static_cast<float>(x) : kNaN); }

/// The sixteen random bits of an element, as encode.h pins them.
inline u32 random_of(const Draws& d, i64 cols, i64 r, i64 c) {
  const u64 number =
      static_cast<u64>((d.first_row + r) * ((cols + 127) / 128 * 128)) + static_cast<u64>(c);
  const u64 b = number / 128, i = number % 128;
  const u32 word = Rng{d.seed, Draw::rounding, d.stream}.bits(16 * b + i % 16)[i / 32];
  return i / 16 % 2 == 0 ? word & 0xffff : word >> 16;
}

/// A matrix seen as vectors of a product: at(v, k) is element k of vector v.
struct Vectors {
  i64 count, depth;
  Along along;
  std::vector<float> values;

  Vectors(const Matrix& x, Along a)
      : count(a == Along::cols ? x.rows() : x.cols()),
        depth(a == Along::cols ? x.cols() : x.rows()),
        along(a) {
    for (i64 v = 0; v < count; ++v)
      for (i64 k = 0; k < depth; ++k)
        values.push_back(flush(a == Along::cols ? x.at(v, k) : x.at(k, v)));
  }
  float& at(i64 v, i64 k) { return values[static_cast<std::size_t>(v * depth + k)]; }
  float at(i64 v, i64 k) const { return values[static_cast<std::size_t>(v * depth + k)]; }

  /// Of the vectors [v, v + vs) and elements [k, k + ks), of those there are.
  float amax(i64 v, i64 vs, i64 k, i64 ks) const {
    std::vector<float> some;
    for (i64 i = v; i < std::min(count, v + vs); ++i)
      for (i64 j = k; j < std::min(depth, k + ks); ++j) some.push_back(at(i, j));
    return numerics::amax(some);
  }
};

inline void transform(Vectors& x, int order) {
  for (i64 v = 0; v < x.count; ++v)
    for (i64 first = 0; first < x.depth; first += order) {
      for (i64 i = 0; i < order; ++i)
        x.at(v, first + i) *= static_cast<float>(numerics::hadamard_sign(i));
      for (i64 stride = 1; stride < order; stride *= 2)
        for (i64 i = 0; i < order; ++i) {
          if ((i & stride) != 0) continue;
          float &a = x.at(v, first + i), &b = x.at(v, first + i + stride);
          const float sum = flush(a + b), difference = flush(a - b);
          a = sum, b = difference;
        }
      for (i64 i = 0; i < order; ++i)
        x.at(v, first + i) = flush(x.at(v, first + i) / std::sqrt(static_cast<float>(order)));
    }
}

/// What the elements of a block are multiplied by before and after they are rounded.
struct BlockScale {
  double pre = 1, post = 1;
  float decode = 1;
};

inline BlockScale scale_of_one_amax(const Encoding& e, float amax, float delayed) {
  float s = 1;
  if (e.scaling == Scaling::current || e.scaling == Scaling::row)
    s = numerics::current_scale(e.format, amax, {0, e.power_of_two});
  if (e.scaling == Scaling::shift) s = numerics::hif8_scale(amax);
  if (e.scaling == Scaling::delayed) s = delayed;
  s = std::max(s, kMinNormal);  // a subnormal scale would be zero
  return {s, 1, flush(1 / s)};
}

inline BlockScale scale_of_block(const Encoding& e, float amax, float tensor_amax) {
  BlockScale b;
  if (e.scaling == Scaling::tile) {
    const numerics::TileScale t = numerics::tile_scale(amax, e.power_of_two);
    return {t.encode, 1, t.decode};
  }
  if (e.scaling == Scaling::mx) {
    const u8 code = numerics::mx_scale(e.mx_rule, e.format, amax);
    const double scale = numerics::decode(Format::e8m0, code);
    return {1 / scale, scale, 1};
  }
  const numerics::Nvfp4Tensor t = numerics::nvfp4_tensor(tensor_amax);
  const u8 code = numerics::nvfp4_scale(t, amax);
  b.pre = numerics::nvfp4_inverse(t, code);
  b.post = numerics::decode(Format::e4m3, code);
  const bool usable = std::isfinite(tensor_amax) && tensor_amax > 0;
  b.decode = usable ? flush(tensor_amax / 2688) : 1;
  return b;
}

/// What encode must write, as floats: codes row by row, scales likewise.
struct Wanted {
  std::vector<float> codes, scales;
};

inline double rounded(const Encoding& e, double y, u32 random) {
  numerics::Cast c{.tie = e.rounding, .subnormals = numerics::Subnormal::flush_input};
  c.random_bits = 16;
  if (e.format == Format::f32 || e.format == Format::bf16 || e.format == Format::tf32 ||
      e.format == Format::fp16)
    c.overflow = numerics::Overflow::nonsaturate;
  if (std::isnan(y)) return kNaN;
  if (e.format == Format::mxint8 && e.scaling == Scaling::mx) y = std::max(y, -127.0 / 64);
  return numerics::decode(e.format, numerics::encode(e.format, y, c, random));
}

class Oracle {
 public:
  Oracle(const Matrix& x, const Encoding& e, Along along, const Draws& d, float delayed = 1)
      : e_(e), d_(d), x_(x, along), wanted_{} {
    if (e.hadamard != 0) transform(x_, e.hadamard);
    wanted_.codes.resize(x_.values.size());
    tensor_amax_ = x_.amax(0, x_.count, 0, x_.depth);
    delayed_ = delayed;
    const numerics::ScaleShape shape = numerics::scale_shape(e, x_.count, x_.depth);
    wanted_.scales.assign(static_cast<std::size_t>(shape.rows * shape.cols), 0);
    if (e.scaling == Scaling::hif4)
      encode_hif4();
    else
      encode_blocks(shape);
  }
  const Wanted& wanted() const { return wanted_; }
  const Vectors& transformed() const { return x_; }

 private:
  void put(i64 v, i64 k, double y, const BlockScale& b) {
    const i64 r = x_.along == Along::cols ? v : k, c = x_.along == Along::cols ? k : v;
    const i64 cols = x_.along == Along::cols ? x_.depth : x_.count;
    const double code = rounded(e_, y, random_of(d_, cols, r, c));
    const double stored = std::isnan(b.pre) ? kNaN : flush(code * b.post);
    wanted_.codes[static_cast<std::size_t>(r * cols + c)] = static_cast<float>(stored);
  }

  void encode_blocks(const numerics::ScaleShape& shape) {
    const i64 size = numerics::block_size(e_);
    const bool whole = e_.scaling == Scaling::none || size == 0;
    const i64 ks = whole ? std::max<i64>(x_.depth, 1) : size;
    const i64 vs = e_.scaling == Scaling::row ? 1 : whole ? x_.count : e_.square ? size : 1;
    for (i64 v = 0; v < x_.count; v += vs)
      for (i64 k = 0; k < x_.depth; k += ks) {
        const float amax = x_.amax(v, vs, k, ks);
        const BlockScale b =
            whole ? scale_of_one_amax(e_, amax, delayed_) : scale_of_block(e_, amax, tensor_amax_);
        if (!wanted_.scales.empty()) {
          const i64 at = v / vs * shape.cols + (shape.depth ? k / ks : 0);
          const float scale = flush(b.decode * (1 / e_.head_room));
          if (shape.outer == 0)
            std::fill(wanted_.scales.begin(), wanted_.scales.end(), scale);
          else
            wanted_.scales[static_cast<std::size_t>(at)] = scale;
        }
        for (i64 i = v; i < std::min(x_.count, v + vs); ++i)
          for (i64 j = k; j < std::min(x_.depth, k + ks); ++j) put(i, j, scaled(x_.at(i, j), b), b);
      }
  }

  double scaled(float x, const BlockScale& b) const {
    // Powers of two are exact, whatever their size.
    if (e_.scaling == Scaling::mx) return static_cast<float>(x * e_.head_room) * b.pre;
    return flush(flush(x * static_cast<float>(b.pre)) * e_.head_room);
  }

  /// A product of HiF4, which has more bits than a float: rounded to odd before head_room.
  double with_head_room(double y) const {
    if (e_.head_room == 1) return y;
    auto f = static_cast<float>(y);
    if (f != y) {
      const u32 u = std::bit_cast<u32>(f) - (std::fabs(f) > std::fabs(y) ? 1 : 0);
      f = std::bit_cast<float>(u | 1);
    }
    return flush(flush(f) * e_.head_room);
  }

  void encode_hif4() {
    std::fill(wanted_.scales.begin(), wanted_.scales.end(), 1 / e_.head_room);
    for (i64 v = 0; v < x_.count; ++v)
      for (i64 k = 0; k < x_.depth; k += 64) {
        const i64 n = std::min<i64>(64, x_.depth - k);
        const std::vector<float> part(x_.values.begin() + v * x_.depth + k,
                                      x_.values.begin() + v * x_.depth + k + n);
        const numerics::Block b = numerics::encode_block(numerics::BlockKind::hif4, part);
        const double base = numerics::decode(Format::e6m2, b.scale);
        const double reciprocal = to_float(to_bf16(1 / base));
        for (i64 i = 0; i < n; ++i) {
          const int flags = (b.flags8 >> (i / 8) & 1) + (b.flags4 >> (i / 4) & 1);
          const double up = numerics::power_of_two(flags);
          put(v, k + i, with_head_room(x_.at(v, k + i) * reciprocal / up),
              {reciprocal, base * up, 1});
        }
      }
  }

  Encoding e_;
  Draws d_;
  Vectors x_;
  Wanted wanted_;
  float tensor_amax_ = 0, delayed_ = 1;
};

inline std::string describe(const Encoding& e, Along along) {
  return fmt::format("{} scaling {} tie {} hadamard {} square {} pow2 {} rule {} room {} along {}",
                     numerics::info(e.format).name, static_cast<int>(e.scaling),
                     static_cast<int>(e.rounding), e.hadamard, e.square, e.power_of_two,
                     static_cast<int>(e.mx_rule), e.head_room,
                     along == Along::cols ? "cols" : "rows");
}

/// A scale of 3 and no amax yet, where the scaling is delayed.
inline Matrix history_of(const Encoding& e, float scale = 3) {
  Matrix h(kF32, e.scaling == Scaling::delayed ? 1 : 0, 4);
  if (e.scaling != Scaling::delayed) return h;
  h.fill_with(0);
  h.set(0, 0, scale);
  return h;
}

/// Codes and scales of a table; scales are of no rows where there are none.
struct Encoded {
  Matrix codes, scales, history;
};

inline Encoded encode_with(const Kernels& k, Queue& q, Matrix x, const Encoding& e, Along along,
                           const Draws& d, i64 gap = 0, float delayed = 3) {
  const i64 vectors = along == Along::cols ? x.rows() : x.cols();
  const i64 depth = along == Along::cols ? x.cols() : x.rows();
  const numerics::ScaleShape shape = numerics::scale_shape(e, vectors, depth);
  Encoded out{Matrix(numerics::info(e.format).storage, x.rows(), x.cols(), gap),
              Matrix(kF32, shape.rows, shape.cols), history_of(e, delayed)};
  out.codes.fill_with(77);
  k.encode.encode(q, out.codes.view(), out.scales.view(), x.view(), e, along, d,
                  e.scaling == Scaling::delayed ? out.history.view() : Tensor{});
  return out;
}

/// Every bit that the table writes is the oracle's; the first that is not is told.
inline void expect_as_wanted(const Encoded& got, const Wanted& want, const std::string& what) {
  const i64 R = got.codes.rows(), C = got.codes.cols();
  for (i64 r = 0; r < R; ++r)
    for (i64 c = 0; c < C; ++c) {
      const float w = want.codes[static_cast<std::size_t>(r * C + c)];
      if (code_bits(got.codes.at(r, c)) != code_bits(w)) {
        ADD_FAILURE() << what << ": code (" << r << ", " << c << ") is " << got.codes.at(r, c)
                      << ", not " << w;
        return;
      }
    }
  for (i64 i = 0; i < static_cast<i64>(want.scales.size()); ++i) {
    const float w = want.scales[static_cast<std::size_t>(i)];
    const double g = got.scales.at(i / got.scales.cols(), i % got.scales.cols());
    if (code_bits(g) != code_bits(w)) {
      ADD_FAILURE() << what << ": scale " << i << " is " << g << ", not " << w;
      return;
    }
  }
}

/// Every usable table against the oracle.
inline void expect_right(const Matrix& x, const Encoding& e, Along along, const Draws& d = {},
                         i64 gap = 0) {
  static Queue q(1);
  const Oracle oracle(x, e, along, d, 3);
  for (const Candidate& t : candidates()) {
    if (!t.why_not.empty() ||
        (t.table->name != "ref" && t.table->name != "avx2" && t.table->name != "avx512"))
      continue;
    expect_as_wanted(encode_with(*t.table, q, x, e, along, d, gap), oracle.wanted(),
                     std::string(t.table->name) + ", " + describe(e, along));
  }
}

}  // namespace lathe::kernels
