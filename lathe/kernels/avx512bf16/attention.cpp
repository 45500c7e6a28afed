// Attention with VDPBF16PS. The instruction takes, in each lane, the upper halves of its operands
// and then the lower ones, each by a fused multiply-add with subnormals as zero: packed as (k,
// k + 2), two steps of one chain of gemm.h. Of four elements k..k+3, two words: (low k+2, high k)
// of the even chain, (low k+3, high k+1) of the odd one.

#include "lathe/kernels/attention_outer.h"
#include "lathe/kernels/attention_types.h"
#include "lathe/kernels/avx512/attention_simd.h"
#include "lathe/kernels/avx512/simd.h"
#include "lathe/kernels/avx512bf16/word_pairs.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::avx512bf16_impl {

namespace {

struct PairWords {
  using L = F16;
  using Word = F16;  // sixteen pairs of BF16, in the bits of floats
  using Scalar = float;
  using Left = bf16;
  using Right = u32;
  static constexpr i64 kWord = 2;

  LATHE_INLINE static void put_left(bf16* a, i64 lda, i64 r, i64 k, F16 x) {
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(4, 5, 0, 1, 6, 7, 2, 3, 12, 13, 8, 9, 14, 15, 10, 11));
    const auto narrow = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x.v));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(a + r * lda + k),
                        _mm256_shuffle_epi8(narrow, order));
  }
  LATHE_INLINE static void put_right(u32* panel, i64 k, const F16* x) {
    u32* to = panel + k / kWord * kLanes;
    store_dwords(to, word_pairs(x[0], x[2]));
    store_dwords(to + kLanes, word_pairs(x[1], x[3]));
  }
  LATHE_INLINE static void transpose(float* t) { transpose_floats(t); }
  LATHE_INLINE static Word row(const bf16* p) {
    float pair;
    __builtin_memcpy(&pair, p, sizeof pair);
    return F16::broadcast(pair);
  }
  LATHE_INLINE static Word column(const u32* p) { return {_mm512_castsi512_ps(load_dwords(p))}; }
  LATHE_INLINE static F16 multiply_add(Word row, Word column, F16 acc) {
    return {_mm512_dpbf16_ps(acc.v, reinterpret_cast<__m512bh>(row.v),
                             reinterpret_cast<__m512bh>(column.v))};
  }
};

// Three sums of four rows of two panels, two columns and a row: 27 of 32 registers.
using Groups = OuterProducts<PairWords, true, RegisterTile<4, 2>>;

}  // namespace

void add_attention(Kernels& k) { FloatAttention<Groups, Inherited>::add(k.attention); }

}  // namespace lathe::kernels::avx512bf16_impl
