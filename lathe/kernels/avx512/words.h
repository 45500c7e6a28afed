#pragma once
// Sixteen words (kernels/words.h) as one AVX-512 register.

#include <immintrin.h>

#include "lathe/kernels/avx512/simd.h"
#include "lathe/kernels/words.h"

namespace lathe::kernels {
namespace {

struct Words {
  using Floats = F16;
  __m512i v;

  LATHE_INLINE static Words broadcast(u32 u) { return {_mm512_set1_epi32(static_cast<i32>(u))}; }
  LATHE_INLINE static Words load(const u8* p, All = {}) {
    return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  LATHE_INLINE static Words load(const u8* p, i64 n) {
    return {_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(F16::first(n).m, p))};
  }
  LATHE_INLINE void store(u8* p, All = {}) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(v));
  }
  LATHE_INLINE void store(u8* p, i64 n) const {
    _mm_mask_storeu_epi8(p, F16::first(n).m, _mm512_cvtepi32_epi8(v));
  }
  // Gathers would be several times slower: tables are few registers, and permutes look up in two.
  LATHE_INLINE F16 look_up(const float* table) const {
    return either(7, among_128(table), among_128(table + 128));
  }
  LATHE_INLINE static Words search(const float* tree, F16 x) {
    Words at = broadcast(0);
#pragma GCC unroll 5
    for (int level = 0; level < 5; ++level)
      at = at.child({_mm512_permutexvar_ps(at.v, _mm512_loadu_ps(tree + (1 << level)))}, x);
    at = at.child(at.among_32(tree + 32), x);
    at = at.child(at.among_64(tree + 64), x);
    return at.child(at.among_128(tree + 128), x);
  }
  LATHE_INLINE friend Words add_where(F16::Mask m, Words a, u32 u) {
    return {_mm512_mask_add_epi32(a.v, m.m, a.v, _mm512_set1_epi32(static_cast<i32>(u)))};
  }

 private:
  LATHE_INLINE Words child(F16 node, F16 x) const {
    return add_where(node <= x, Words{_mm512_slli_epi32(v, 1)}, 1);
  }
  /// one where that bit of the word is set, else zero.
  LATHE_INLINE F16 either(int bit, F16 zero, F16 one) const {
    return select({_mm512_test_epi32_mask(v, _mm512_set1_epi32(1 << bit))}, one, zero);
  }
  LATHE_INLINE F16 among_32(const float* t) const {
    return {_mm512_permutex2var_ps(_mm512_loadu_ps(t), v, _mm512_loadu_ps(t + 16))};
  }
  LATHE_INLINE F16 among_64(const float* t) const {
    return either(5, among_32(t), among_32(t + 32));
  }
  LATHE_INLINE F16 among_128(const float* t) const {
    return either(6, among_64(t), among_64(t + 64));
  }
};

}  // namespace
}  // namespace lathe::kernels
