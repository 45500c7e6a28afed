#pragma once
// Sixteen lanes (lanes.h) as one AVX-512 register. For files of avx512/, avx512bf16/ and amx/ only.

#include <immintrin.h>

#include "lathe/kernels/lanes.h"

namespace lathe::kernels {
namespace {

struct U16 {
  __m512i v;

  LATHE_INLINE static U16 load(const u32* p) { return {_mm512_loadu_si512(p)}; }
  LATHE_INLINE void store(u32* p) const { _mm512_storeu_si512(p, v); }
  LATHE_INLINE static U16 broadcast(u32 x) { return {_mm512_set1_epi32(static_cast<i32>(x))}; }
  LATHE_INLINE static U16 index() {
    return {_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)};
  }
  LATHE_INLINE friend U16 operator+(U16 a, U16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
  LATHE_INLINE friend U16 operator-(U16 a, U16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
  LATHE_INLINE friend U16 operator&(U16 a, U16 b) { return {_mm512_and_si512(a.v, b.v)}; }
  LATHE_INLINE friend U16 operator|(U16 a, U16 b) { return {_mm512_or_si512(a.v, b.v)}; }
  LATHE_INLINE friend U16 operator^(U16 a, U16 b) { return {_mm512_xor_si512(a.v, b.v)}; }
  LATHE_INLINE U16 shl(int n) const { return {_mm512_sll_epi32(v, _mm_cvtsi32_si128(n))}; }
  LATHE_INLINE U16 shr(int n) const { return {_mm512_srl_epi32(v, _mm_cvtsi32_si128(n))}; }
  LATHE_INLINE friend U16 max(U16 a, U16 b) { return {_mm512_max_epu32(a.v, b.v)}; }
  LATHE_INLINE friend U16 min(U16 a, U16 b) { return {_mm512_min_epu32(a.v, b.v)}; }
  LATHE_INLINE u32 hmax() const {
    const __m256i h = _mm256_max_epu32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
    const __m128i q = _mm_max_epu32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
    const __m128i d = _mm_max_epu32(q, _mm_shuffle_epi32(q, 0x4e));
    return static_cast<u32>(_mm_cvtsi128_si32(_mm_max_epu32(d, _mm_shuffle_epi32(d, 0xb1))));
  }
  LATHE_INLINE friend U16 mul_even(U16 a, u32 k) {
    return {_mm512_mul_epu32(a.v, _mm512_set1_epi64(k))};
  }
  LATHE_INLINE friend U16 upper_half(U16 a) { return {_mm512_srli_epi64(a.v, 32)}; }
  LATHE_INLINE friend U16 pairs(U16 a, U16 b) {
    return {_mm512_mask_blend_epi32(0xaaaa, a.v, _mm512_slli_epi64(b.v, 32))};
  }
};

struct F16 {
  using Scalar = float;
  using Bits = U16;
  static constexpr bool kSingle = true;
  struct Mask {
    __mmask16 m;
    LATHE_INLINE friend Mask operator&(Mask a, Mask b) { return {_kand_mask16(a.m, b.m)}; }
    LATHE_INLINE friend Mask operator|(Mask a, Mask b) { return {_kor_mask16(a.m, b.m)}; }
    LATHE_INLINE friend Mask operator!(Mask a) { return {_knot_mask16(a.m)}; }
  };
  __m512 v;

  LATHE_INLINE static Mask first(i64 n) { return {static_cast<__mmask16>((1u << n) - 1)}; }
  LATHE_INLINE static Mask first(All) { return {0xffff}; }

  LATHE_INLINE static F16 load(const float* p, All = {}) { return {_mm512_loadu_ps(p)}; }
  LATHE_INLINE static F16 load(const float* p, i64 n) {
    return {_mm512_maskz_loadu_ps(first(n).m, p)};
  }
  LATHE_INLINE static F16 load(const bf16* p, All = {}) {
    return widen(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  LATHE_INLINE static F16 load(const bf16* p, i64 n) {
    return widen(_mm256_maskz_loadu_epi16(first(n).m, p));
  }
  LATHE_INLINE void store(float* p, All = {}) const { _mm512_storeu_ps(p, v); }
  LATHE_INLINE void store(float* p, i64 n) const { _mm512_mask_storeu_ps(p, first(n).m, v); }
  LATHE_INLINE void store(bf16* p, All = {}) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow());
  }
  LATHE_INLINE void store(bf16* p, i64 n) const {
    _mm256_mask_storeu_epi16(p, first(n).m, narrow());
  }
  LATHE_INLINE static F16 broadcast(float s) { return {_mm512_set1_ps(s)}; }

  LATHE_INLINE friend F16 operator+(F16 a, F16 b) { return {_mm512_add_ps(a.v, b.v)}; }
  LATHE_INLINE friend F16 operator-(F16 a, F16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
  LATHE_INLINE friend F16 operator*(F16 a, F16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
  LATHE_INLINE friend F16 operator/(F16 a, F16 b) { return {_mm512_div_ps(a.v, b.v)}; }
  LATHE_INLINE friend F16 operator-(F16 a) { return {_mm512_xor_ps(a.v, _mm512_set1_ps(-0.0F))}; }
  LATHE_INLINE friend F16 fma(F16 a, F16 b, F16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
  LATHE_INLINE friend F16 sqrt(F16 a) { return {_mm512_sqrt_ps(a.v)}; }

  LATHE_INLINE friend Mask operator<(F16 a, F16 b) {
    return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)};
  }
  LATHE_INLINE friend Mask operator<=(F16 a, F16 b) {
    return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)};
  }
  LATHE_INLINE friend Mask operator>(F16 a, F16 b) { return b < a; }
  LATHE_INLINE friend Mask operator>=(F16 a, F16 b) { return b <= a; }
  LATHE_INLINE friend Mask operator==(F16 a, F16 b) {
    return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)};
  }
  LATHE_INLINE friend Mask operator!=(F16 a, F16 b) {
    return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_NEQ_UQ)};
  }
  LATHE_INLINE friend F16 select(Mask m, F16 a, F16 b) {
    return {_mm512_mask_blend_ps(m.m, b.v, a.v)};
  }
  LATHE_INLINE friend F16 minus_abs(F16 a) { return {_mm512_or_ps(a.v, _mm512_set1_ps(-0.0F))}; }
  LATHE_INLINE friend F16 min(F16 a, F16 b) { return {_mm512_min_ps(a.v, b.v)}; }
  LATHE_INLINE friend F16 max(F16 a, F16 b) { return {_mm512_max_ps(a.v, b.v)}; }

  LATHE_INLINE float sum() const {
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
  }
  LATHE_INLINE float hmax() const {
    const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    const __m128 d = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehdup_ps(d)));
  }
  LATHE_INLINE float lane0() const { return _mm512_cvtss_f32(v); }

  struct SquareSum {
    __m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd();
    LATHE_INLINE void add(F16 x) {
      const __m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(x.v));
      const __m512d b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x.v, 1));
      low = _mm512_fmadd_pd(a, a, low);
      high = _mm512_fmadd_pd(b, b, high);
    }
    LATHE_INLINE double total() const {
      const __m512d e = _mm512_add_pd(low, high);
      const __m256d q = _mm256_add_pd(_mm512_castpd512_pd256(e), _mm512_extractf64x4_pd(e, 1));
      const __m128d d = _mm_add_pd(_mm256_castpd256_pd128(q), _mm256_extractf128_pd(q, 1));
      return _mm_cvtsd_f64(_mm_add_sd(d, _mm_unpackhi_pd(d, d)));
    }
  };

  // VSCALEFPS does the ends of the range by itself, given that subnormal results become zero, and
  // that p is finite: hence the clamp, which lets a NaN through.
  LATHE_INLINE friend F16 exp_domain(F16 x) {
    return min(broadcast(89.5F), max(broadcast(-104.0F), x));
  }
  LATHE_INLINE friend F16 exp_scaled(F16 p, F16 n, F16, F16) {
    return {_mm512_scalef_ps(p.v, n.v)};
  }
  LATHE_INLINE friend F16 split(F16 x, F16& mantissa) {
    const __m512i u = _mm512_castps_si512(x.v);
    const __m512i root_half = _mm512_set1_epi32(Plain<float>::kRootHalfBits);
    const __m512i e = _mm512_srai_epi32(_mm512_sub_epi32(u, root_half), 23);
    mantissa.v = _mm512_castsi512_ps(_mm512_sub_epi32(u, _mm512_slli_epi32(e, 23)));
    return {_mm512_cvtepi32_ps(e)};
  }

  LATHE_INLINE friend Bits bits(F16 a) { return {_mm512_castps_si512(a.v)}; }
  LATHE_INLINE static F16 from(Bits b) { return {_mm512_castsi512_ps(b.v)}; }
  LATHE_INLINE static F16 number(Bits b) { return {_mm512_cvtepi32_ps(b.v)}; }
  LATHE_INLINE friend Bits whole(F16 a) { return {_mm512_cvttps_epi32(a.v)}; }
  template <int N>
  LATHE_INLINE static F16 exchange(F16 a) {
    if constexpr (N == 1) return {_mm512_permute_ps(a.v, 0xb1)};
    if constexpr (N == 2) return {_mm512_permute_ps(a.v, 0x4e)};
    if constexpr (N == 4) return {_mm512_shuffle_f32x4(a.v, a.v, 0xb1)};
    if constexpr (N == 8) return {_mm512_shuffle_f32x4(a.v, a.v, 0x4e)};
  }
  template <int N>
  LATHE_INLINE static F16 low_lanes(F16 a, F16 b) {
    if constexpr (N == 1) return {_mm512_mask_permute_ps(a.v, 0xaaaa, b.v, 0xb1)};
    if constexpr (N == 2) return {_mm512_mask_permute_ps(a.v, 0xcccc, b.v, 0x4e)};
    if constexpr (N == 4) return {_mm512_mask_shuffle_f32x4(a.v, 0xf0f0, b.v, b.v, 0xb1)};
    if constexpr (N == 8) return {_mm512_shuffle_f32x4(a.v, b.v, 0x44)};
  }
  template <int N>
  LATHE_INLINE static F16 high_lanes(F16 a, F16 b) {
    if constexpr (N == 1) return {_mm512_mask_permute_ps(b.v, 0x5555, a.v, 0xb1)};
    if constexpr (N == 2) return {_mm512_mask_permute_ps(b.v, 0x3333, a.v, 0x4e)};
    if constexpr (N == 4) return {_mm512_mask_shuffle_f32x4(b.v, 0x0f0f, a.v, a.v, 0xb1)};
    if constexpr (N == 8) return {_mm512_shuffle_f32x4(a.v, b.v, 0xee)};
  }
  LATHE_INLINE void store_upper(bf16* p, All = {}) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), upper());
  }
  LATHE_INLINE void store_upper(bf16* p, i64 n) const {
    _mm256_mask_storeu_epi16(p, first(n).m, upper());
  }

 private:
  LATHE_INLINE static F16 widen(__m256i h) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16))};
  }
  LATHE_INLINE __m256i upper() const {
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_castps_si512(v), 16));
  }
  LATHE_INLINE __m256i narrow() const {
    const __m512i u = _mm512_castps_si512(v);
    const __mmask16 odd = _mm512_test_epi32_mask(u, _mm512_set1_epi32(0x10000));
    const __m512i half =
        _mm512_mask_mov_epi32(_mm512_set1_epi32(0x7fff), odd, _mm512_set1_epi32(0x8000));
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i r =
        _mm512_mask_or_epi32(_mm512_add_epi32(u, half), nan, u, _mm512_set1_epi32(0x400000));
    const __m512i upper = _mm512_castsi256_si512(
        _mm256_setr_epi16(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31));
    return _mm512_castsi512_si256(_mm512_permutexvar_epi16(upper, r));
  }
};

}  // namespace
}  // namespace lathe::kernels
