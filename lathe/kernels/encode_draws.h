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

/// Words of the counters 16 b .. 16 b + 15 of Rng{d.seed, Draw::rounding, d.stream}, of each of N
/// blocks b, `step` apart: words[64 n + 16 w + i] is word w of counter i of the nth. Several at
/// once because each is a chain of ten products.
template <int N, Lanes L>
LATHE_INLINE void draw_blocks(u32* words, const Draws& d, u64 first, u64 step) {
  using B = typename L::Bits;
  const u64 key = d.seed ^ (u64{kRoundingDraw} << 56);
  u32 k0 = static_cast<u32>(key), k1 = static_cast<u32>(key >> 32);
  // Products take two lanes, so even counters are in one register and odd ones in the next.
  B c[2 * N][4];
#pragma GCC unroll 4
  for (u32 h = 0; h < 2 * N; ++h) {
    const u64 counter = 16 * (first + h / 2 * step);
    c[h][0] = B::broadcast(static_cast<u32>(counter) + h % 2) + B::index();
    c[h][1] = B::broadcast(static_cast<u32>(counter >> 32));
    c[h][2] = B::broadcast(static_cast<u32>(d.stream));
    c[h][3] = B::broadcast(static_cast<u32>(d.stream >> 32));
  }
  for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 4
    for (B(&v)[4] : c) {
      const B p0 = mul_even(v[0], 0xD2511F53), p1 = mul_even(v[2], 0xCD9E8D57);
      v[0] = upper_half(p1) ^ v[1] ^ B::broadcast(k0);
      v[1] = p1;
      v[2] = upper_half(p0) ^ v[3] ^ B::broadcast(k1);
      v[3] = p0;
    }
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
#pragma GCC unroll 2
  for (i64 n = 0; n < N; ++n)
#pragma GCC unroll 4
    for (i64 w = 0; w < 4; ++w)
      pairs(c[2 * n][w], c[2 * n + 1][w]).store(words + n * kDrawWords + w * kLanes);
}

/// The 16 bits of elements 16 j .. 16 j + 15 of a block.
template <Lanes L>
LATHE_INLINE typename L::Bits drawn(const u32* words, i64 j) {
  using B = typename L::Bits;
  const B w = B::load(words + j / 2 * kLanes);
  return j % 2 == 0 ? w & B::broadcast(0xffff) : w.shr(16);
}

}  // namespace lathe::kernels
