#include "lathe/numerics/scale.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"

namespace lathe::numerics {

namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr u8 kNanScale = 0xff, kLargestScale = 0xfe;
constexpr u32 kFraction = 0x7fffff;

/// The exponent field of the smallest power of two that is at least x, at most 254. 0 is 2^-127,
/// which is a subnormal float, half way up the subnormals.
int power_above(float x) {
  const u32 u = std::bit_cast<u32>(x), fraction = u & kFraction;
  const int field = static_cast<int>(u >> 23);
  const bool up = fraction > 0 && field != 254 && !(field == 0 && fraction <= 0x400000);
  return field + (up ? 1 : 0);
}

float largest_of(Format f) { return static_cast<float>(info(f).largest); }

bool usable(float amax) { return std::isfinite(amax) && amax > 0; }

}  // namespace

float amax(std::span<const float> values) {
  float a = 0;
  for (const float v : values) {
    if (std::isnan(v)) return kNan;
    a = std::max(a, std::abs(v));
  }
  return a;
}

u8 mx_scale(MxRule rule, Format element, float amax, BadAmax bad) {
  const FormatInfo& i = info(element);
  if (std::isnan(amax)) return kNanScale;
  if (std::isinf(amax)) return bad == BadAmax::strict ? kNanScale : kLargestScale;
  if (amax == 0) return 0;
  const u32 u = std::bit_cast<u32>(amax);
  const int emax = exponent_of(i.largest), field = static_cast<int>(u >> 23);
  int code = 0;
  switch (rule) {
    case MxRule::floor:
      code = field - emax;
      break;
    case MxRule::ceil:
      // 254 is not the end here: the division by 2^emax comes after.
      code = (field == 254 && (u & kFraction) != 0 ? 255 : power_above(amax)) - emax;
      break;
    case MxRule::even:
      code = static_cast<int>((u + (u32{1} << (22 - i.mantissa_bits))) >> 23) - emax;
      break;
    case MxRule::round_up:
      code = power_above(amax * (1 / largest_of(element)));
      break;
  }
  return static_cast<u8>(std::clamp<int>(code, 0, kLargestScale));
}

Nvfp4Tensor nvfp4_tensor(float amax) {
  const float scale = usable(amax) ? std::min(2688 / amax, kMax) : 1;
  return {amax, scale, 1 / scale};
}

u8 nvfp4_scale(const Nvfp4Tensor& t, float block_amax, BadAmax bad) {
  if (std::isnan(block_amax) || (std::isinf(block_amax) && bad == BadAmax::strict)) return 0x7f;
  const float raw = block_amax * (t.encode * (1.0F / 6));
  return static_cast<u8>(encode(Format::e4m3, std::min(raw, 448.0F), {}));
}

float nvfp4_inverse(const Nvfp4Tensor& t, u8 scale) {
  const auto s = static_cast<float>(decode(Format::e4m3, scale));
  return std::isnan(s) ? kNan : std::min(1 / (s * t.decode), kMax);
}

std::array<double, 16> random_hadamard(std::span<const float, 16> x) {
  std::array<double, 16> y{};
  for (unsigned j = 0; j < 16; ++j) {
    for (unsigned i = 0; i < 16; ++i) {
      const bool minus = (std::popcount(i & j) & 1) != 0;
      y[j] += x[i] * static_cast<double>(minus ? -hadamard_sign(i) : hadamard_sign(i));
    }
    y[j] /= 4;
  }
  return y;
}

TileScale tile_scale(float amax, bool power_of_two) {
  if (!std::isfinite(amax)) return {kNan, kNan};
  float decode = std::max(amax, 1e-4F) / 448;
  if (power_of_two)
    decode = std::bit_cast<float>(static_cast<u32>(std::clamp(power_above(decode), 1, 254)) << 23);
  return {decode, 1 / decode};
}

float current_scale(Format element, float amax, const CurrentOptions& o) {
  const float a = amax < o.epsilon ? o.epsilon : amax;
  if (!usable(a)) return 1;
  const float scale = std::min(largest_of(element) / a, kMax);
  return o.power_of_two ? std::bit_cast<float>(std::bit_cast<u32>(scale) & ~kFraction) : scale;
}

float hif8_scale(float amax) {
  constexpr int kTop = 3, kRange = 126;  // 2^127 and its reciprocal would leave the normal floats
  if (!usable(amax)) return 1;
  return static_cast<float>(power_of_two(std::clamp(kTop - exponent_of(amax), -kRange, kRange)));
}

DelayedScale::DelayedScale(const DelayedOptions& o) {
  CHECK(o.history >= 1, "a history of {}", o.history);
  history.assign(static_cast<std::size_t>(o.history), 0);
}

void DelayedScale::update(Format element, float amax, const DelayedOptions& o) {
  history[0] = amax;
  float window = amax;
  if (!o.most_recent)
    for (const float h : history) window = std::fmax(window, h);
  if (usable(window)) {
    const float top = std::ldexp(largest_of(element), -o.margin);
    scale = std::min(top / window, kMax);
  }
  if (amax != 0) {
    std::rotate(history.begin(), history.begin() + 1, history.end());
  }
  history[0] = 0;
}

}  // namespace lathe::numerics
