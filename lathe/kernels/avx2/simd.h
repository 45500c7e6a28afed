#pragma once
// Sixteen lanes (lanes.h) as two AVX registers. For files of avx2/ only.

#include <immintrin.h>

#include "lathe/kernels/lanes.h"

namespace lathe::kernels {
namespace {

struct U16 {
  __m256i a, b;  // lanes 0..7 and 8..15

  LATHE_INLINE static U16 load(const u32* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 8))};
  }
  LATHE_INLINE void store(u32* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), b);
  }
  LATHE_INLINE static U16 broadcast(u32 x) {
    const __m256i all = _mm256_set1_epi32(static_cast<i32>(x));
    return {all, all};
  }
  LATHE_INLINE static U16 index() {
    return {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
            _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
  }
  LATHE_INLINE friend U16 operator+(U16 x, U16 y) {
    return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)};
  }
  LATHE_INLINE friend U16 operator-(U16 x, U16 y) {
    return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)};
  }
  LATHE_INLINE friend U16 operator&(U16 x, U16 y) {
    return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)};
  }
  LATHE_INLINE friend U16 operator|(U16 x, U16 y) {
    return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)};
  }
  LATHE_INLINE friend U16 operator^(U16 x, U16 y) {
    return {_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)};
  }
  LATHE_INLINE U16 shl(int n) const {
    const __m128i by = _mm_cvtsi32_si128(n);
    return {_mm256_sll_epi32(a, by), _mm256_sll_epi32(b, by)};
  }
  LATHE_INLINE U16 shr(int n) const {
    const __m128i by = _mm_cvtsi32_si128(n);
    return {_mm256_srl_epi32(a, by), _mm256_srl_epi32(b, by)};
  }
  LATHE_INLINE friend U16 max(U16 x, U16 y) {
    return {_mm256_max_epu32(x.a, y.a), _mm256_max_epu32(x.b, y.b)};
  }
  LATHE_INLINE friend U16 min(U16 x, U16 y) {
    return {_mm256_min_epu32(x.a, y.a), _mm256_min_epu32(x.b, y.b)};
  }
  LATHE_INLINE u32 hmax() const {
    const __m256i h = _mm256_max_epu32(a, b);
    const __m128i q = _mm_max_epu32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
    const __m128i d = _mm_max_epu32(q, _mm_shuffle_epi32(q, 0x4e));
    return static_cast<u32>(_mm_cvtsi128_si32(_mm_max_epu32(d, _mm_shuffle_epi32(d, 0xb1))));
  }
  LATHE_INLINE friend U16 mul_even(U16 x, u32 k) {
    const __m256i by = _mm256_set1_epi64x(k);
    return {_mm256_mul_epu32(x.a, by), _mm256_mul_epu32(x.b, by)};
  }
  LATHE_INLINE friend U16 upper_half(U16 x) {
    return {_mm256_srli_epi64(x.a, 32), _mm256_srli_epi64(x.b, 32)};
  }
  LATHE_INLINE friend U16 pairs(U16 x, U16 y) {
    return {_mm256_blend_epi32(x.a, _mm256_slli_epi64(y.a, 32), 0xaa),
            _mm256_blend_epi32(x.b, _mm256_slli_epi64(y.b, 32), 0xaa)};
  }
};

struct F16 {
  using Scalar = float;
  using Bits = U16;
  static constexpr bool kSingle = true;
  struct Mask {
    __m256 a, b;  // all bits of a lane, or none
    LATHE_INLINE friend Mask operator&(Mask x, Mask y) {
      return {_mm256_and_ps(x.a, y.a), _mm256_and_ps(x.b, y.b)};
    }
    LATHE_INLINE friend Mask operator|(Mask x, Mask y) {
      return {_mm256_or_ps(x.a, y.a), _mm256_or_ps(x.b, y.b)};
    }
    LATHE_INLINE friend Mask operator!(Mask x) {
      const __m256 all = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
      return {_mm256_xor_ps(x.a, all), _mm256_xor_ps(x.b, all)};
    }
  };
  __m256 a, b;  // lanes 0..7 and 8..15

  LATHE_INLINE static Mask first(i64 n) {
    const __m256i low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i count = _mm256_set1_epi32(static_cast<i32>(n));
    const __m256i high = _mm256_add_epi32(low, _mm256_set1_epi32(8));
    return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(count, low)),
            _mm256_castsi256_ps(_mm256_cmpgt_epi32(count, high))};
  }
  LATHE_INLINE static Mask first(All) {
    const __m256 all = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
    return {all, all};
  }

  LATHE_INLINE static F16 load(const float* p, All = {}) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
  }
  LATHE_INLINE static F16 load(const float* p, i64 n) {
    const Mask m = first(n);
    return {_mm256_maskload_ps(p, _mm256_castps_si256(m.a)),
            _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.b))};
  }
  LATHE_INLINE static F16 load(const bf16* p, All = {}) {
    return {widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
  }
  LATHE_INLINE static F16 load(const bf16* p, i64 n) {
    alignas(32) bf16 part[kLanes] = {};
    for (i64 i = 0; i < n; ++i) part[i] = p[i];
    return load(part);
  }
  LATHE_INLINE void store(float* p, All = {}) const {
    _mm256_storeu_ps(p, a);
    _mm256_storeu_ps(p + 8, b);
  }
  LATHE_INLINE void store(float* p, i64 n) const {
    const Mask m = first(n);
    _mm256_maskstore_ps(p, _mm256_castps_si256(m.a), a);
    _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.b), b);
  }
  LATHE_INLINE void store(bf16* p, All = {}) const {
    const __m256i packed = _mm256_packus_epi32(narrow(a), narrow(b));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
  }
  LATHE_INLINE void store(bf16* p, i64 n) const {
    alignas(32) bf16 part[kLanes];
    store(part);
    for (i64 i = 0; i < n; ++i) p[i] = part[i];
  }
  LATHE_INLINE static F16 broadcast(float s) { return {_mm256_set1_ps(s), _mm256_set1_ps(s)}; }

  LATHE_INLINE friend F16 operator+(F16 x, F16 y) {
    return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
  }
  LATHE_INLINE friend F16 operator-(F16 x, F16 y) {
    return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
  }
  LATHE_INLINE friend F16 operator*(F16 x, F16 y) {
    return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
  }
  LATHE_INLINE friend F16 operator/(F16 x, F16 y) {
    return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
  }
  LATHE_INLINE friend F16 operator-(F16 x) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_xor_ps(x.a, sign), _mm256_xor_ps(x.b, sign)};
  }
  LATHE_INLINE friend F16 fma(F16 x, F16 y, F16 z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
  }
  LATHE_INLINE friend F16 sqrt(F16 x) { return {_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)}; }

  LATHE_INLINE friend Mask operator<(F16 x, F16 y) {
    return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)};
  }
  LATHE_INLINE friend Mask operator<=(F16 x, F16 y) {
    return {_mm256_cmp_ps(x.a, y.a, _CMP_LE_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LE_OQ)};
  }
  LATHE_INLINE friend Mask operator>(F16 x, F16 y) { return y < x; }
  LATHE_INLINE friend Mask operator>=(F16 x, F16 y) { return y <= x; }
  LATHE_INLINE friend Mask operator==(F16 x, F16 y) {
    return {_mm256_cmp_ps(x.a, y.a, _CMP_EQ_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_EQ_OQ)};
  }
  LATHE_INLINE friend Mask operator!=(F16 x, F16 y) {
    return {_mm256_cmp_ps(x.a, y.a, _CMP_NEQ_UQ), _mm256_cmp_ps(x.b, y.b, _CMP_NEQ_UQ)};
  }
  LATHE_INLINE friend F16 select(Mask m, F16 x, F16 y) {
    return {_mm256_blendv_ps(y.a, x.a, m.a), _mm256_blendv_ps(y.b, x.b, m.b)};
  }
  LATHE_INLINE friend F16 minus_abs(F16 x) {
    const __m256 sign = _mm256_set1_ps(-0.0F);
    return {_mm256_or_ps(x.a, sign), _mm256_or_ps(x.b, sign)};
  }
  LATHE_INLINE friend F16 min(F16 x, F16 y) {
    return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
  }
  LATHE_INLINE friend F16 max(F16 x, F16 y) {
    return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
  }

  LATHE_INLINE float sum() const {
    const __m256 h = _mm256_add_ps(a, b);
    const __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
  }
  LATHE_INLINE float hmax() const {
    const __m256 h = _mm256_max_ps(a, b);
    const __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    const __m128 d = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehdup_ps(d)));
  }
  LATHE_INLINE float lane0() const { return _mm256_cvtss_f32(a); }

  struct SquareSum {
    __m256d acc[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(),
                      _mm256_setzero_pd()};  // lanes 0..3, 4..7, 8..11, 12..15
    LATHE_INLINE void add(F16 x) {
      square(acc[0], _mm256_castps256_ps128(x.a));
      square(acc[1], _mm256_extractf128_ps(x.a, 1));
      square(acc[2], _mm256_castps256_ps128(x.b));
      square(acc[3], _mm256_extractf128_ps(x.b, 1));
    }
    LATHE_INLINE double total() const {
      const __m256d q = _mm256_add_pd(_mm256_add_pd(acc[0], acc[2]), _mm256_add_pd(acc[1], acc[3]));
      const __m128d d = _mm_add_pd(_mm256_castpd256_pd128(q), _mm256_extractf128_pd(q, 1));
      return _mm_cvtsd_f64(_mm_add_sd(d, _mm_unpackhi_pd(d, d)));
    }
    LATHE_INLINE static void square(__m256d& into, __m128 x) {
      const __m256d d = _mm256_cvtps_pd(x);
      into = _mm256_fmadd_pd(d, d, into);
    }
  };

  LATHE_INLINE friend F16 exp_domain(F16 x) { return x; }
  LATHE_INLINE friend F16 exp_scaled(F16 p, F16, F16 t, F16 x) {
    const F16 y{shift_in(p.a, t.a), shift_in(p.b, t.b)};
    const F16 inf = broadcast(std::numeric_limits<float>::infinity());
    const F16 r = select(x > broadcast(kExpHighest), inf, y);
    return select(x == x, select(x < broadcast(kExpLowest), broadcast(0), r), x);
  }
  LATHE_INLINE friend F16 split(F16 x, F16& mantissa) {
    return {split_half(x.a, mantissa.a), split_half(x.b, mantissa.b)};
  }

  LATHE_INLINE friend Bits bits(F16 x) {
    return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)};
  }
  LATHE_INLINE static F16 from(Bits x) {
    return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)};
  }
  LATHE_INLINE static F16 number(Bits x) {
    return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)};
  }
  LATHE_INLINE friend Bits whole(F16 x) {
    return {_mm256_cvttps_epi32(x.a), _mm256_cvttps_epi32(x.b)};
  }
  template <int N>
  LATHE_INLINE static F16 exchange(F16 x) {
    if constexpr (N == 1) return {_mm256_permute_ps(x.a, 0xb1), _mm256_permute_ps(x.b, 0xb1)};
    if constexpr (N == 2) return {_mm256_permute_ps(x.a, 0x4e), _mm256_permute_ps(x.b, 0x4e)};
    if constexpr (N == 4)
      return {_mm256_permute2f128_ps(x.a, x.a, 1), _mm256_permute2f128_ps(x.b, x.b, 1)};
    if constexpr (N == 8) return {x.b, x.a};
  }
  template <int N>
  LATHE_INLINE static F16 low_lanes(F16 x, F16 y) {
    if constexpr (N == 8) return {x.a, y.a};
    const F16 other = exchange < N == 8 ? 1 : N > (y);
    return {_mm256_blend_ps(x.a, other.a, kWithBit<N>), _mm256_blend_ps(x.b, other.b, kWithBit<N>)};
  }
  template <int N>
  LATHE_INLINE static F16 high_lanes(F16 x, F16 y) {
    if constexpr (N == 8) return {x.b, y.b};
    const F16 other = exchange < N == 8 ? 1 : N > (x);
    return {_mm256_blend_ps(other.a, y.a, kWithBit<N>), _mm256_blend_ps(other.b, y.b, kWithBit<N>)};
  }
  LATHE_INLINE void store_upper(bf16* p, All = {}) const {
    const __m256i low = _mm256_srli_epi32(_mm256_castps_si256(a), 16);
    const __m256i high = _mm256_srli_epi32(_mm256_castps_si256(b), 16);
    const __m256i packed = _mm256_packus_epi32(low, high);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
  }
  LATHE_INLINE void store_upper(bf16* p, i64 n) const {
    alignas(32) bf16 part[kLanes];
    store_upper(part);
    for (i64 i = 0; i < n; ++i) p[i] = part[i];
  }

 private:
  template <int N>
  static constexpr int kWithBit = N == 1   ? 0xaa
                                  : N == 2 ? 0xcc
                                           : 0xf0;  // of eight lanes
  LATHE_INLINE static __m256 widen(__m128i h) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
  }
  LATHE_INLINE static __m256i narrow(__m256 x) {
    const __m256i u = _mm256_castps_si256(x);
    const __m256i top = _mm256_srli_epi32(u, 16);
    const __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i quiet = _mm256_or_si256(top, _mm256_set1_epi32(0x40));
    return _mm256_blendv_epi8(_mm256_srli_epi32(up, 16), quiet, nan);
  }
  LATHE_INLINE static __m256 shift_in(__m256 p, __m256 t) {
    return _mm256_castsi256_ps(
        _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(t), 23)));
  }
  LATHE_INLINE static __m256 split_half(__m256 x, __m256& mantissa) {
    const __m256i u = _mm256_castps_si256(x);
    const __m256i root_half = _mm256_set1_epi32(Plain<float>::kRootHalfBits);
    const __m256i e = _mm256_srai_epi32(_mm256_sub_epi32(u, root_half), 23);
    mantissa = _mm256_castsi256_ps(_mm256_sub_epi32(u, _mm256_slli_epi32(e, 23)));
    return _mm256_cvtepi32_ps(e);
  }
};

}  // namespace
}  // namespace lathe::kernels
