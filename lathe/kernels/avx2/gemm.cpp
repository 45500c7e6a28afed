// Products with AVX2 FMA. BF16 operands become floats when they are packed.

#include <immintrin.h>

#include "lathe/kernels/gemm_outer.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::avx2_impl {

namespace {

struct Ymm {
  static constexpr i64 kLanes = 8;
  using Reg = __m256;
  LATHE_INLINE static Reg zero() { return _mm256_setzero_ps(); }
  LATHE_INLINE static Reg load(const float* p) { return _mm256_loadu_ps(p); }
  LATHE_INLINE static void store(float* p, Reg x) { _mm256_storeu_ps(p, x); }
  LATHE_INLINE static Reg broadcast(const float* p) { return _mm256_broadcast_ss(p); }
  LATHE_INLINE static Reg add(Reg x, Reg y) { return _mm256_add_ps(x, y); }
  LATHE_INLINE static Reg mul(Reg x, Reg y) { return _mm256_mul_ps(x, y); }
  LATHE_INLINE static Reg fma(Reg x, Reg y, Reg z) { return _mm256_fmadd_ps(x, y, z); }
  LATHE_INLINE static Reg load_bf16(const bf16* p) {
    const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
  }
  /// To nearest even; NaN stays NaN, subnormals stay.
  LATHE_INLINE static void store_bf16(bf16* p, Reg x) {
    const __m256i u = _mm256_castps_si256(x);
    const __m256i high = _mm256_srli_epi32(u, 16);
    const __m256i bias =
        _mm256_add_epi32(_mm256_and_si256(high, _mm256_set1_epi32(1)), _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(u, bias), 16);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    const __m256i y = _mm256_blendv_epi8(rounded, quiet, nan);
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(y, y), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(words));
  }
};

struct FmaStep {
  LATHE_INLINE static __m256 apply(__m256 acc, __m256 a, __m256 b) {
    return _mm256_fmadd_ps(a, b, acc);
  }
};

/// x[i] lane j <-> x[j] lane i.
LATHE_INLINE void transpose_8x8(__m256 (&x)[8]) {
  __m256 t[8];
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    x[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    x[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    x[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    x[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2f128_ps(x[i], x[i + 4], 0x20);
    t[i + 4] = _mm256_permute2f128_ps(x[i], x[i + 4], 0x31);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) x[i] = t[i];
}

struct Shared {
  using V = Ymm;
  using Step = FmaStep;
  static constexpr i64 kLanes = 8, kPanel = kTileVectors * kLanes, kGroupUnits = kGroup,
                       kGroupBytes = kLanes * kGroup * 4;
  static constexpr i64 kRows = 128, kCols = 8 * kPanel, kDepth = 192;
};

struct F32 : Shared {
  using Element = float;
  static constexpr bool kPaired = false;
  static constexpr int kTileRows = 4;

  LATHE_INLINE static void pack(std::byte* out, const float* x, i64 stride, Along along) {
    auto* to = reinterpret_cast<float*>(out);
    if (along == Along::rows) {
      for (i64 k = 0; k < kGroup; ++k) Ymm::store(to + k * kLanes, Ymm::load(x + k * stride));
      return;
    }
    for (i64 k = 0; k < kGroup; k += 8) {
      __m256 v[8];
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) v[i] = Ymm::load(x + i * stride + k);
      transpose_8x8(v);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) Ymm::store(to + (k + i) * kLanes, v[i]);
    }
  }
};

struct Bf16 : Shared {
  using Element = bf16;
  static constexpr bool kPaired = true;
  static constexpr int kTileRows = 2;

  LATHE_INLINE static void pack(std::byte* out, const bf16* x, i64 stride, Along along) {
    auto* to = reinterpret_cast<float*>(out);
    if (along == Along::rows) {
      for (i64 k = 0; k < kGroup; ++k) Ymm::store(to + k * kLanes, Ymm::load_bf16(x + k * stride));
      return;
    }
    const __m256i high = _mm256_set1_epi32(static_cast<int>(0xffff0000u));
    for (i64 k = 0; k < kGroup; k += 16) {
      __m256 v[8];  // pairs of elements
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i)
        v[i] = Ymm::load(reinterpret_cast<const float*>(x + i * stride + k));
      transpose_8x8(v);
#pragma GCC unroll 8
      for (int i = 0; i < 8; ++i) {
        const __m256i pair = _mm256_castps_si256(v[i]);
        float* even = to + (k + 2 * i) * kLanes;
        Ymm::store(even, _mm256_castsi256_ps(_mm256_slli_epi32(pair, 16)));
        Ymm::store(even + kLanes, _mm256_castsi256_ps(_mm256_and_si256(pair, high)));
      }
    }
  }
};

decltype(GemmKernels::product) inherited = nullptr;

void product(Queue& q, const Tensor& c, const Operand& a, const Operand& b,
             const Epilogue& e) noexcept {
  outer_product<F32, Bf16>(q, c, a, b, e, inherited);
}

}  // namespace

void add_gemm(Kernels& k) {
  inherited = k.gemm.product;
  k.gemm.product = product;
}

}  // namespace lathe::kernels::avx2_impl
