#pragma once
// Sixteen words of 32 bits, one for each lane (lanes.h): the integers beside a lane type, for codes
// of eight bits.
//
// A word type W has
//   Floats                      its lane type
//   broadcast(u)                sixteen times u
//   load(p, n), store(p, n)     from and to u8, n as in lanes.h; the low eight bits are stored
//   look_up(table)              table[a], of 256 floats
//   search(tree, x)             how many of 255 floats are at most x; they stand as a balanced
//                               tree: node n has children 2 n and 2 n + 1, the root is 1
//   add_where(mask, a, u)       mask ? a + u : a
//
// PlainWords is the one in plain C++.

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
  static PlainWords load(const u8* p, i64 n = kLanes) {
    return each([&](i64 i) { return i < n ? u32{p[i]} : 0u; });
  }
  void store(u8* p, i64 n = kLanes) const {
    for (i64 i = 0; i < n; ++i) p[i] = static_cast<u8>(v[i]);
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

}  // namespace lathe::kernels
