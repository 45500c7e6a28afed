#pragma once
// Random bits from a counter: a pure function of (seed, step, what, index), so that they depend
// neither on the order of calls nor on threads, and nothing needs saving in a checkpoint.

#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

#include "lathe/base/view.h"

namespace lathe {

/// What a stream of random bits is for. Values are part of the checkpoint contract: append only.
enum class Draw : u32 { init = 1, sample = 2, shuffle = 3, rounding = 4 };

/// Philox4x32-10 (Salmon et al., SC 2011): 128 random bits for a 128-bit counter and a 64-bit key.
constexpr std::array<u32, 4> philox(std::array<u32, 4> c, u64 key) {
  auto k0 = static_cast<u32>(key), k1 = static_cast<u32>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const u64 p0 = u64{0xD2511F53} * c[0], p1 = u64{0xCD9E8D57} * c[2];
    c = {static_cast<u32>(p1 >> 32) ^ c[1] ^ k0, static_cast<u32>(p1),
         static_cast<u32>(p0 >> 32) ^ c[3] ^ k1, static_cast<u32>(p0)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return c;
}

/// A stream for a name, the same for good, whatever the standard library: FNV-1a.
constexpr u64 stream_of(std::string_view name) {
  u64 h = 0xcbf29ce484222325;
  for (const char c : name) h = (h ^ static_cast<u8>(c)) * 0x100000001b3;
  return h;
}
/// Another one for every step of that name.
constexpr u64 stream_of(std::string_view name, i64 step) {
  u64 h = stream_of(name);
  for (int byte = 0; byte < 8; ++byte)
    h = (h ^ ((static_cast<u64>(step) >> (8 * byte)) & 0xff)) * 0x100000001b3;
  return h;
}

/// The numbers of one purpose: seed, purpose, and two free words (a step, a tensor's hash, …).
struct Rng {
  u64 seed = 0;
  Draw draw = Draw::init;
  u64 stream = 0;

  /// 128 bits for element `index`.
  constexpr std::array<u32, 4> bits(u64 index) const {
    const u64 key = seed ^ (u64{static_cast<u32>(draw)} << 56);
    return philox({static_cast<u32>(index), static_cast<u32>(index >> 32), static_cast<u32>(stream),
                   static_cast<u32>(stream >> 32)},
                  key);
  }
  constexpr u64 word(u64 index) const {
    const auto b = bits(index);
    return (u64{b[0]} << 32) | b[1];
  }
  /// Uniform in [0, 1), 53 bits.
  constexpr double uniform(u64 index) const {
    return static_cast<double>(word(index) >> 11) * 0x1p-53;
  }
  /// Standard normal, by Box and Muller.
  double normal(u64 index) const {
    const auto b = bits(index);
    const double u = (static_cast<double>((u64{b[0]} << 32 | b[1]) >> 11) + 0.5) * 0x1p-53;
    const double v = static_cast<double>((u64{b[2]} << 32 | b[3]) >> 11) * 0x1p-53;
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
  }
};

}  // namespace lathe
