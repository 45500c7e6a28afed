// Products of BF16 operands with VDPBF16PS. The instruction takes, in each lane, the upper halves
// of its operands and then the lower ones, each by a fused multiply-add with subnormals as zero:
// packed as (k, k + 2), two steps of one chain of gemm.h. So elements 0 2 4 6 … and 1 3 5 7 … of a
// group are two chains of 8 units each, stored alternately.

#include "lathe/kernels/avx512/gemm_simd.h"
#include "lathe/kernels/gemm_outer.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::avx512bf16_impl {

namespace {

struct DotStep {
  LATHE_INLINE static __m512 apply(__m512 acc, __m512 a, __m512 b) {
    return _mm512_dpbf16_ps(acc, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
};

struct Bf16 {
  using Element = bf16;
  using V = Zmm;
  using Step = DotStep;
  static constexpr bool kPaired = true;
  static constexpr int kTileRows = 4;
  static constexpr i64 kLanes = 16, kPanel = kTileVectors * kLanes, kGroupUnits = kGroup / 2,
                       kGroupBytes = kLanes * kGroup * 2;
  static constexpr i64 kRows = 128, kCols = 4 * kPanel, kDepth = 192;

  LATHE_INLINE static void pack(std::byte* out, const bf16* x, i64 stride, Along along) {
    if (along == Along::rows) {
#pragma GCC unroll 8
      for (i64 k = 0; k < kGroup; k += 4, out += 128) {
        const __m512i w0 = load_words(x + k * stride), w1 = load_words(x + (k + 1) * stride);
        const __m512i w2 = load_words(x + (k + 2) * stride), w3 = load_words(x + (k + 3) * stride);
        store_dwords(out, _mm512_or_si512(_mm512_slli_epi32(w0, 16), w2));
        store_dwords(out + 64, _mm512_or_si512(_mm512_slli_epi32(w1, 16), w3));
      }
      return;
    }
    // Of four words w0 w1 w2 w3: (low w2, high w0) and (low w3, high w1).
    const __m512i order =
        _mm512_broadcast_i32x4(_mm_setr_epi8(4, 5, 0, 1, 6, 7, 2, 3, 12, 13, 8, 9, 14, 15, 10, 11));
    __m512i v[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) v[i] = _mm512_shuffle_epi8(load_dwords(x + i * stride), order);
    transpose_16x16(v);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) store_dwords(out + i * 64, v[i]);
  }
};

decltype(GemmKernels::product) inherited = nullptr;

void product(Queue& q, const Tensor& c, const Operand& a, const Operand& b,
             const Epilogue& e) noexcept {
  if (a.data.type != DType::bf16 || !chunks_fit(a, b)) return inherited(q, c, a, b, e);
  product_by<OuterProduct<Bf16>>(q, c, a, b, e);
}

}  // namespace

void add_gemm(Kernels& k) {
  inherited = k.gemm.product;
  k.gemm.product = product;
}

}  // namespace lathe::kernels::avx512bf16_impl
