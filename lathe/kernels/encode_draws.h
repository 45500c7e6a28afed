#pragma once
// The random bits of stochastic rounding, sixteen counters at a time. A block of 128 elements takes
// 16 counters of four words, so that its elements 16 j .. 16 j + 15 take one half of word j / 2 of
// each counter: no bit moves between lanes.

#include "lathe/base/view.h"
#include "lathe/kernels/encode.h"
#include "lathe/kernels/lanes.h"

namespace lathe::kernels {

inline constexpr u32 kRoundingDraw = 4;  // Draw::rounding (base/rng.h)
inline constexpr i64 kDrawWords = 64;    // of a block: four a counter

/// Words of the counters 16 b .. 16 b + 15 of Rng{d.seed, Draw::rounding, d.stream}: words[16 w +
/// i] is word w of counter 16 b + i.
template <Lanes L>
LATHE_INLINE void draw_block(u32* words, const Draws& d, u64 b) {
  using B = typename L::Bits;
  const u64 key = d.seed ^ (u64{kRoundingDraw} << 56);
  u32 k0 = static_cast<u32>(key), k1 = static_cast<u32>(key >> 32);
  B c0 = B::broadcast(static_cast<u32>(16 * b)) + B::index();
  B c1 = B::broadcast(static_cast<u32>((16 * b) >> 32));
  B c2 = B::broadcast(static_cast<u32>(d.stream));
  B c3 = B::broadcast(static_cast<u32>(d.stream >> 32));
  for (int round = 0; round < 10; ++round) {
    const B high0 = mul_high(c0, 0xD2511F53), low0 = mul_low(c0, 0xD2511F53);
    const B high1 = mul_high(c2, 0xCD9E8D57), low1 = mul_low(c2, 0xCD9E8D57);
    c0 = high1 ^ c1 ^ B::broadcast(k0);
    c1 = low1;
    c2 = high0 ^ c3 ^ B::broadcast(k1);
    c3 = low0;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  c0.store(words), c1.store(words + 16), c2.store(words + 32), c3.store(words + 48);
}

/// The 16 bits of elements 16 j .. 16 j + 15 of a block.
template <Lanes L>
LATHE_INLINE typename L::Bits drawn(const u32* words, i64 j) {
  using B = typename L::Bits;
  const B w = B::load(words + j / 2 * kLanes);
  return j % 2 == 0 ? w & B::broadcast(0xffff) : w.shr(16);
}

}  // namespace lathe::kernels
