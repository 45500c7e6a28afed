#pragma once
// Rounding to BF16 and pairing in one go. For files of avx512bf16/ and amx/.

#include "lathe/kernels/avx512/simd.h"

namespace lathe::kernels {
namespace {

/// Two vectors rounded to BF16, side by side: (low y, high x) in every word.
LATHE_INLINE __m512i word_pairs(F16 x, F16 y) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(x.v, y.v)));
}

}  // namespace
}  // namespace lathe::kernels
