#pragma once
// Sixteen words (kernels/words.h) as two AVX registers.

#include <immintrin.h>

#include "lathe/kernels/avx2/simd.h"
#include "lathe/kernels/words.h"

namespace lathe::kernels {
namespace {

struct Words {
  using Floats = F16;
  __m256i a, b;  // lanes 0..7 and 8..15

  LATHE_INLINE static Words broadcast(u32 u) {
    const __m256i x = _mm256_set1_epi32(static_cast<i32>(u));
    return {x, x};
  }
  LATHE_INLINE static Words load(const u8* p, All = {}) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepu8_epi32(x), _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(x, x))};
  }
  LATHE_INLINE static Words load(const u8* p, i64 n) {
    alignas(16) u8 part[kLanes] = {};
    for (i64 i = 0; i < n; ++i) part[i] = p[i];
    return load(part);
  }
  LATHE_INLINE void store(u8* p, i64 n = kLanes) const {
    alignas(32) u32 part[kLanes];
    _mm256_store_si256(reinterpret_cast<__m256i*>(part), a);
    _mm256_store_si256(reinterpret_cast<__m256i*>(part + 8), b);
    for (i64 i = 0; i < n; ++i) p[i] = static_cast<u8>(part[i]);
  }
  LATHE_INLINE friend Words operator+(Words x, Words y) {
    return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
  }
  LATHE_INLINE F16 look_up(const float* table) const {
    return {_mm256_i32gather_ps(table, a, 4), _mm256_i32gather_ps(table, b, 4)};
  }
  LATHE_INLINE static Words search(const float* tree, F16 x) {
    Words at = broadcast(0);
#pragma GCC unroll 4
    for (int level = 0; level < 4; ++level) {
      const __m256 nodes = _mm256_loadu_ps(tree + (1 << level));
      const F16 node{_mm256_permutevar8x32_ps(nodes, at.a), _mm256_permutevar8x32_ps(nodes, at.b)};
      at = add_where(node <= x, at + at, 1);
    }
#pragma GCC unroll 4
    for (int level = 4; level < 8; ++level)
      at = add_where(at.look_up(tree + (1 << level)) <= x, at + at, 1);
    return at;
  }
  LATHE_INLINE friend Words add_where(F16::Mask m, Words x, u32 u) {
    const __m256i some = _mm256_set1_epi32(static_cast<i32>(u));
    return x + Words{_mm256_and_si256(_mm256_castps_si256(m.a), some),
                     _mm256_and_si256(_mm256_castps_si256(m.b), some)};
  }
};

}  // namespace
}  // namespace lathe::kernels
