#pragma once
// What attention needs of AVX-512 beyond sixteen lanes. For files of avx512/, avx512bf16/ and amx/.

#include "lathe/kernels/avx512/gemm_simd.h"
#include "lathe/kernels/lanes.h"

namespace lathe::kernels {
namespace {

/// Of a 16 x 16 block, in place.
LATHE_INLINE void transpose_floats(float* t) {
  __m512i x[kLanes];
#pragma GCC unroll 16
  for (i64 i = 0; i < kLanes; ++i) x[i] = load_dwords(t + i * kLanes);
  transpose_16x16(x);
#pragma GCC unroll 16
  for (i64 i = 0; i < kLanes; ++i) store_dwords(t + i * kLanes, x[i]);
}

}  // namespace
}  // namespace lathe::kernels
