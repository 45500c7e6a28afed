// Products with AVX-512 FMA. BF16 operands become floats when they are packed.

#include "lathe/kernels/avx512/gemm_simd.h"
#include "lathe/kernels/gemm_outer.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::avx512_impl {

namespace {

struct Shared {
  using V = Zmm;
  using Step = FmaStep;
  static constexpr i64 kLanes = 16, kPanel = kTileVectors * kLanes, kGroupUnits = kGroup,
                       kGroupBytes = kLanes * kGroup * 4;
  static constexpr i64 kRows = 128, kCols = 4 * kPanel, kDepth = 96;
};

struct F32 : Shared {
  using Element = float;
  static constexpr bool kPaired = false;
  static constexpr int kTileRows = 8;

  LATHE_INLINE static void pack(std::byte* out, const float* x, i64 stride, Along along) {
    auto* to = reinterpret_cast<float*>(out);
    if (along == Along::rows) {
      for (i64 k = 0; k < kGroup; ++k) Zmm::store(to + k * kLanes, Zmm::load(x + k * stride));
      return;
    }
    for (i64 k = 0; k < kGroup; k += 16) {
      __m512i v[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) v[i] = load_dwords(x + i * stride + k);
      transpose_16x16(v);
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) store_dwords(to + (k + i) * kLanes, v[i]);
    }
  }
};

struct Bf16 : Shared {
  using Element = bf16;
  static constexpr bool kPaired = true;
  static constexpr int kTileRows = 4;

  LATHE_INLINE static void pack(std::byte* out, const bf16* x, i64 stride, Along along) {
    auto* to = reinterpret_cast<float*>(out);
    if (along == Along::rows) {
      for (i64 k = 0; k < kGroup; ++k) Zmm::store(to + k * kLanes, Zmm::load_bf16(x + k * stride));
      return;
    }
    __m512i v[16];  // pairs of elements
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) v[i] = load_dwords(x + i * stride);
    transpose_16x16(v);
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      store_dwords(to + 2 * i * kLanes, _mm512_slli_epi32(v[i], 16));
      store_dwords(to + (2 * i + 1) * kLanes, _mm512_and_si512(v[i], high));
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

}  // namespace lathe::kernels::avx512_impl
