#include "lathe/kernels/encode_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "lathe/base/error.h"
#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/encode.h"
#include "lathe/kernels/encode_draws.h"
#include "lathe/kernels/gemm.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/scale.h"

namespace lathe::kernels {

namespace {

using numerics::Format;
using numerics::FormatInfo;
using numerics::Kind;
using numerics::Scaling;

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kMinNormal = std::numeric_limits<float>::min();

static_assert(static_cast<u32>(Draw::rounding) == kRoundingDraw);

float power(int e) { return static_cast<float>(numerics::power_of_two(e)); }

float flush(float x) { return std::fabs(x) < kMinNormal ? 0 : x; }

Grid grid_of(const numerics::Encoding& e) {
  if (e.scaling == Scaling::hif4) return Grid::product;
  switch (e.format) {
    case Format::f32:
    case Format::tf32:
    case Format::bf16:
      return Grid::bits;
    case Format::fp16:
      return Grid::half;
    case Format::mxint8:
      return Grid::whole;
    case Format::hif8:
      return Grid::tapered;
    default:
      return Grid::lattice;
  }
}

void set_lattice(EncodePlan& p, const FormatInfo& i) {
  const bool fixed = i.kind == Kind::twos || i.kind == Kind::sign;
  p.mantissa = i.mantissa_bits;
  p.lowest = fixed ? 1 : power(1 - i.bias);
  p.step = power(23 - i.mantissa_bits);
  p.largest = static_cast<float>(i.largest);
  p.reciprocal = 1 / p.largest;
  p.top_exponent = static_cast<u32>(numerics::exponent_of(i.largest));
  p.top = p.largest;
  p.bottom = i.kind == Kind::twos && p.encoding.scaling != Scaling::mx ? 2 : p.top;
  p.infinities = p.grid == Grid::half || p.grid == Grid::bits;
  p.zero = i.has_minus_zero ? -0.0F : 0.0F;
  // Twice as far, so that what overflows is seen to.
  if (p.grid == Grid::half) p.top = p.bottom = 2 * p.top;
  if (p.grid != Grid::bits) return;
  p.cut = i.format == Format::bf16 ? 16 : i.format == Format::tf32 ? 13 : 0;
  p.largest_bits = 0x7f800000;
}

void set_nvfp4(EncodePlan& p, float amax) {
  const numerics::Nvfp4Tensor t = numerics::nvfp4_tensor(amax);
  p.block_factor = t.encode * (1.0F / 6);
  for (u32 n = 0; n < kInverses; ++n) {
    const float scale = n == 0 ? 0 : std::bit_cast<float>((kFirstInverse + n) << 20);
    p.inverses[n] = std::min(1 / (scale * t.decode), kMax);
  }
  p.decode = std::isfinite(amax) && amax > 0 ? amax / 2688 : 1;
}

}  // namespace

EncodePlan plan_encode(const numerics::Encoding& e, Along along) {
  const FormatInfo& i = numerics::info(e.format);
  EncodePlan p;
  p.encoding = e;
  p.along = along;
  p.storage = i.storage;
  p.grid = grid_of(e);
  set_lattice(p, i);
  p.block = e.scaling == Scaling::none ? 0 : numerics::block_size(e);
  if (along == Along::rows) p.height = std::max({p.height, p.block, i64{e.hadamard}});
  if (e.square) p.height = std::max(p.height, p.block);
  p.room = e.head_room;
  p.inverse_room = 1 / e.head_room;
  return p;
}

void set_tensor_scale(EncodePlan& p, float amax, float delayed) {
  const float a = flush(amax);
  float scale = 1;
  switch (p.encoding.scaling) {
    case Scaling::current:
      scale = numerics::current_scale(p.encoding.format, a, {0, p.encoding.power_of_two});
      break;
    case Scaling::delayed:
      scale = delayed;
      break;
    case Scaling::shift:
      scale = numerics::hif8_scale(a);
      break;
    case Scaling::nvfp4:
      set_nvfp4(p, a);
      p.decode = flush(flush(p.decode) * p.inverse_room);
      return;
    default:
      p.decode = p.inverse_room;
      return;
  }
  p.multiplier = std::max(scale, kMinNormal);
  p.decode = flush(flush(1 / p.multiplier) * p.inverse_room);
}

void check_vectors(i64 count) {
  CHECK(count <= kMostVectors, "{} vectors with a scale each", count);
}

void widen_limits(EncodePlan& p) {
  p.top *= 2;
  p.bottom *= 2;
  p.largest_bits = 0x7f800000;
}

void update_history(Queue&, const Tensor& history, Format format, int margin,
                    bool most_recent) noexcept {
  float* h = history.row<float>(0);
  float* begin = h + kHistoryNow;
  float* end = h + history.cols;
  const float amax = *begin;
  float window = amax;
  if (!most_recent)
    for (const float* p = begin; p < end; ++p) window = std::fmax(window, *p);
  if (std::isfinite(window) && window > 0) {
    const float top = std::ldexp(static_cast<float>(numerics::info(format).largest), -margin);
    h[kHistoryScale] = std::min(top / window, kMax);
  }
  if (amax != 0) std::rotate(begin, begin + 1, end);
  *begin = 0;
}

}  // namespace lathe::kernels
