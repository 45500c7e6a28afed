#pragma once
// Sixteen words of 32 bits, one for each lane (lanes.h): the integers beside a lane type, for
// random bits and for codes of eight bits.
//
// A word type W has
//   Floats                      its lane type
//   broadcast(u), counting(u)   sixteen times u; u + lane
//   load(p, n), store(p, n)     from and to u8, n as in lanes.h; the low eight bits are stored
//   a + b, a ^ b, a & b         modulo 2^32
//   upper()                     a >> 16
//   product(a, m, high)         low 32 bits of a m; high = the others
//   of(x), as_float()           the bits of floats, and back
//   look_up(table)              table[a], of 256 floats
//   search(tree, x)             how many of 255 floats are at most x; they stand as a balanced
//                               tree: node n has children 2 n and 2 n + 1, the root is 1
//   add_where(mask, a, u)       mask ? a + u : a
//
// PlainWords is the one in plain C++.

#include <bit>

#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/lanes.h"

namespace lathe::kernels {

struct PlainWords {
  using Floats = Plain<float>;
  u32 v[kLanes];

  template <class F>
  LATHE_INLINE static PlainWords each(const F& f) {
    PlainWords r;
    for (i64 i = 0; i < kLanes; ++i) r.v[i] = f(i);
    return r;
  }
  static PlainWords broadcast(u32 u) {
    return each([&](i64) { return u; });
  }
  static PlainWords counting(u32 u) {
    return each([&](i64 i) { return u + static_cast<u32>(i); });
  }
  static PlainWords load(const u8* p, i64 n = kLanes) {
    return each([&](i64 i) { return i < n ? u32{p[i]} : 0u; });
  }
  void store(u8* p, i64 n = kLanes) const {
    for (i64 i = 0; i < n; ++i) p[i] = static_cast<u8>(v[i]);
  }
  friend PlainWords operator+(const PlainWords& a, const PlainWords& b) {
    return each([&](i64 i) { return a.v[i] + b.v[i]; });
  }
  friend PlainWords operator^(const PlainWords& a, const PlainWords& b) {
    return each([&](i64 i) { return a.v[i] ^ b.v[i]; });
  }
  friend PlainWords operator&(const PlainWords& a, const PlainWords& b) {
    return each([&](i64 i) { return a.v[i] & b.v[i]; });
  }
  PlainWords upper() const {
    return each([&](i64 i) { return v[i] >> 16; });
  }
  static PlainWords product(const PlainWords& a, u32 m, PlainWords& high) {
    high = each([&](i64 i) { return static_cast<u32>((u64{a.v[i]} * m) >> 32); });
    return each([&](i64 i) { return a.v[i] * m; });
  }
  static PlainWords of(const Floats& x) {
    return each([&](i64 i) { return std::bit_cast<u32>(x.v[i]); });
  }
  Floats as_float() const {
    return Floats::each([&](i64 i) { return std::bit_cast<float>(v[i]); });
  }
  Floats look_up(const float* table) const {
    return Floats::each([&](i64 i) { return table[v[i]]; });
  }
  static PlainWords search(const float* tree, const Floats& x) {
    return each([&](i64 i) {
      u32 node = 1;
      while (node < 256) node = 2 * node + (tree[node] <= x.v[i] ? 1 : 0);
      return node - 256;
    });
  }
  friend PlainWords add_where(const Floats::Mask& m, const PlainWords& a, u32 u) {
    return each([&](i64 i) { return m.on[i] ? a.v[i] + u : a.v[i]; });
  }
};

/// Random bits of the elements 128 b .. 128 b + 127 of a stream, laid out as Draws has it: of the
/// sixteen elements from 16 j on, in the low half of words(j).
template <class W>
struct DrawBlock {
  W word[4];
  LATHE_INLINE W words(i64 j) const {
    const W& w = word[j / 2];
    return j % 2 == 0 ? w & W::broadcast(0xffff) : w.upper();
  }
};

/// Philox4x32-10 (base/rng.h) of sixteen counters at once.
template <class W>
LATHE_INLINE DrawBlock<W> draw_block(u64 seed, u64 stream, i64 b) {
  const u64 key = seed ^ (u64{static_cast<u32>(Draw::rounding)} << 56);
  const u64 first = static_cast<u64>(b) * kLanes;
  u32 k0 = static_cast<u32>(key), k1 = static_cast<u32>(key >> 32);
  W c0 = W::counting(static_cast<u32>(first)), c1 = W::broadcast(static_cast<u32>(first >> 32));
  W c2 = W::broadcast(static_cast<u32>(stream)), c3 = W::broadcast(static_cast<u32>(stream >> 32));
  for (int round = 0; round < 10; ++round) {
    W high0, high1;
    const W low0 = W::product(c0, 0xD2511F53u, high0), low1 = W::product(c2, 0xCD9E8D57u, high1);
    c0 = high1 ^ c1 ^ W::broadcast(k0);
    c1 = low1;
    c2 = high0 ^ c3 ^ W::broadcast(k1);
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// x cut to BF16, having gone up in magnitude with probability (low 16 bits of x) / 2^16: the
/// sixteen bits are added below. What is not finite stays as it is.
template <Lanes L, class W>
LATHE_INLINE L rounded_by(L x, W bits) {
  const L y = ((W::of(x) + bits) & W::broadcast(0xffff0000u)).as_float();
  return select(x - x == L::broadcast(0), y, x);
}

}  // namespace lathe::kernels
