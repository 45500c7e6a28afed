#pragma once
// AVX-512 for products: vectors of 16 floats and the transposition that packing needs. Included by
// files of one instruction set only; everything is inlined into them.

#include <immintrin.h>

#include "lathe/base/view.h"

namespace lathe::kernels {
namespace {

struct Zmm {
  static constexpr i64 kLanes = 16;
  using Reg = __m512;
  LATHE_INLINE static Reg zero() { return _mm512_setzero_ps(); }
  LATHE_INLINE static Reg load(const float* p) { return _mm512_loadu_ps(p); }
  LATHE_INLINE static void store(float* p, Reg x) { _mm512_storeu_ps(p, x); }
  LATHE_INLINE static Reg broadcast(const float* p) { return _mm512_set1_ps(*p); }
  LATHE_INLINE static Reg add(Reg x, Reg y) { return _mm512_add_ps(x, y); }
  LATHE_INLINE static Reg mul(Reg x, Reg y) { return _mm512_mul_ps(x, y); }
  LATHE_INLINE static Reg fma(Reg x, Reg y, Reg z) { return _mm512_fmadd_ps(x, y, z); }
  LATHE_INLINE static Reg load_bf16(const bf16* p) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
  }
  /// To nearest even; NaN stays NaN, subnormals stay.
  LATHE_INLINE static void store_bf16(bf16* p, Reg x) {
    const __m512i u = _mm512_castps_si512(x);
    const __m512i high = _mm512_srli_epi32(u, 16);
    const __m512i bias =
        _mm512_add_epi32(_mm512_and_si512(high, _mm512_set1_epi32(1)), _mm512_set1_epi32(0x7fff));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(u, bias), 16);
    const __mmask16 nan = _mm512_cmpgt_epu32_mask(
        _mm512_and_si512(u, _mm512_set1_epi32(0x7fffffff)), _mm512_set1_epi32(0x7f800000));
    const __m512i y = _mm512_mask_or_epi32(rounded, nan, high, _mm512_set1_epi32(0x40));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(y));
  }
};

/// acc = fma(a, b, acc), a lane holding one float.
struct FmaStep {
  LATHE_INLINE static __m512 apply(__m512 acc, __m512 a, __m512 b) {
    return _mm512_fmadd_ps(a, b, acc);
  }
};

/// x[i] lane j <-> x[j] lane i.
LATHE_INLINE void transpose_16x16(__m512i (&x)[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(x[i], x[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(x[i], x[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    x[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    x[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    x[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    x[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_i32x4(x[i], x[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(x[i], x[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(x[i + 8], x[i + 12], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    x[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    x[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    x[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    x[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  }
}

LATHE_INLINE __m512i load_dwords(const void* p) { return _mm512_loadu_si512(p); }
LATHE_INLINE void store_dwords(void* p, __m512i x) { _mm512_storeu_si512(p, x); }
/// 16 words, each widened to a dword.
LATHE_INLINE __m512i load_words(const bf16* p) {
  return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

}  // namespace
}  // namespace lathe::kernels
