#pragma once
// Moments in eight bits: a block of f32 values to codes and back, over any lane type L and its
// words W (words.h). Each call sees one block, whole or the last one of a parameter.

#include <limits>

#include "lathe/kernels/math.h"
#include "lathe/kernels/row_work.h"
#include "lathe/kernels/update.h"
#include "lathe/kernels/update_tables.h"
#include "lathe/kernels/words.h"

namespace lathe::kernels {

/// Which moment: it decides the map, and what rounding must not do.
enum class Which : u8 { first, second };

/// The largest |x|, FLT_MAX at most.
template <Lanes L>
LATHE_INLINE float largest_of(const float* x, i64 count) {
  L top = L::broadcast(0);
  for_lanes(count, [&](i64 i, auto n) { top = max(magnitude(L::load(x + i, n)), top); });
  return min(L::broadcast(top.hmax()), L::broadcast(std::numeric_limits<float>::max())).lane0();
}

/// The smallest |x| but for zeros, wherever in the block they are; infinity where all are zero.
template <Lanes L>
LATHE_INLINE float smallest_of(const float* x, i64 count) {
  const L inf = L::broadcast(std::numeric_limits<float>::infinity());
  L least = inf;
  for_lanes(count, [&](i64 i, auto n) {
    const L size = magnitude(L::load(x + i, n));
    least = min(select(size > L::broadcast(0), size, inf), least);
  });
  return -(-least).hmax();
}

LATHE_INLINE const CodeTable& map_of(Which which) {
  return which == Which::first ? kSignedMap : kUnsignedMap;
}

/// y, decoded from a code of that value: the least there is where it came out as zero, so that a
/// second moment that is positive never reads as zero.
template <Lanes L>
LATHE_INLINE L kept(const L& value, const L& y) {
  const L zero = L::broadcast(0), least = L::broadcast(std::numeric_limits<float>::min());
  return select(value > zero, max(y, least), y);
}

template <Lanes L, class W>
LATHE_INLINE void decode_dynamic(float* x, const u8* codes, float scale, i64 count, Which which) {
  const float* const values = map_of(which).value;
  for_lanes(count, [&](i64 i, auto n) {
    const L value = W::load(codes + i, n).look_up(values);
    const L y = value * L::broadcast(scale);
    (which == Which::second ? kept(value, y) : y).store(x + i, n);
  });
}

template <Lanes L, class W>
LATHE_INLINE void encode_dynamic(u8* codes, float* scale, const float* x, const float* g, i64 count,
                                 Which which) {
  const CodeTable& t = map_of(which);
  const L zero = L::broadcast(0), least = L::broadcast(t.value[t.zero + 1]);
  *scale = largest_of<L>(x, count);
  for_lanes(count, [&](i64 i, auto n) {
    if (*scale == 0) return W::broadcast(t.zero).store(codes + i, n);
    const L from = L::load(x + i, n), y = from / L::broadcast(*scale);
    if (which == Which::second)
      return W::search(t.tree, select(from > zero, max(y, least), zero)).store(codes + i, n);
    W code = W::search(t.tree, y);
    // What only decays must get smaller in the end: to nearest it could stay for ever.
    const L value = code.look_up(t.value);
    const auto still = L::load(g + i, n) == zero;
    code = add_where(still & (y > zero) & (value > y), code, ~0u);
    code = add_where(still & (y < zero) & (value < y), code, 1);
    code.store(codes + i, n);
  });
}

/// How a group is bent so that its magnitudes fill the range of E4M3.
struct Expansion {
  float scale, k, centre;
};

/// log2(448^2 / 2), the binades between the largest magnitude and the smallest after expansion.
inline constexpr float kExpandedBinades = 16.614710F;
/// Sixteenths of k. Less would leave two codes further apart than a factor of 1.6; more would be
/// finer than f32 resolves.
inline constexpr float kLeastExpansion = 4, kMostExpansion = 16384;

/// k = floor(16 log2(448^2 / 2) / log2(largest / smallest)) / 16 between the bounds above; centre =
/// sqrt(largest smallest); scale = (largest / centre)^k / 448. All zeros: 0, 1, 1.
template <Lanes L>
LATHE_INLINE Expansion expansion_of(float largest, float smallest) {
  if (!(largest > 0)) return {0, 1, 1};
  const L top = L::broadcast(largest), low = L::broadcast(smallest);
  constexpr float kPerBinade = 1.44269504F;
  const L binades = (log(top) - log(low)) * L::broadcast(kPerBinade);
  const L wanted = L::broadcast(16 * kExpandedBinades) / binades;  // infinite where all are equal
  const float sixteenths =
      max(L::broadcast(kLeastExpansion), min(wanted, L::broadcast(kMostExpansion))).lane0();
  const float k = static_cast<float>(static_cast<i32>(sixteenths)) / 16;
  const L centre = sqrt(top) * sqrt(low);
  const L expanded = exp(L::broadcast(k) * log(top / centre));
  return {(expanded / L::broadcast(448)).lane0(), k, centre.lane0()};
}

template <Lanes L, class W>
LATHE_INLINE void decode_expanded(float* x, const u8* codes, const float* group, i64 count,
                                  Which which) {
  const L scale = L::broadcast(group[0]), k = L::broadcast(group[1]),
          centre = L::broadcast(group[2]), zero = L::broadcast(0);
  for_lanes(count, [&](i64 i, auto n) {
    const L q = W::load(codes + i, n).look_up(kE4m3.value);
    L y = exp(log(magnitude(q) * scale) / k) * centre;
    if (which == Which::second) y = kept(q, y);
    select(q == zero, zero, select(q < zero, -y, y)).store(x + i, n);
  });
}

template <Lanes L, class W>
LATHE_INLINE void encode_expanded(u8* codes, float* group, const float* x, const float* g,
                                  i64 count, Which which) {
  const Expansion e = expansion_of<L>(largest_of<L>(x, count), smallest_of<L>(x, count));
  group[0] = e.scale, group[1] = e.k, group[2] = e.centre;
  const L zero = L::broadcast(0), least = L::broadcast(kE4m3.value[1]), most = L::broadcast(448);
  const L scale = L::broadcast(e.scale), k = L::broadcast(e.k), centre = L::broadcast(e.centre);
  for_lanes(count, [&](i64 i, auto n) {
    const L from = L::load(x + i, n);
    L y = min(exp(k * log(magnitude(from) / centre)) / scale, most);
    if (which == Which::second) y = max(y, least);
    y = select(from == zero, zero, y);
    W code = W::search(kE4m3.tree, y);
    if (which == Which::first) {
      const auto still = L::load(g + i, n) == zero;
      code = add_where(still & (code.look_up(kE4m3.value) > y), code, ~0u);
    }
    add_where(from < zero, code, 128).store(codes + i, n);
  });
}

}  // namespace lathe::kernels
