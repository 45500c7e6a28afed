#include "lathe/kernels/peak.h"

#include <immintrin.h>

#include "lathe/kernels/kernels.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::avx2_impl {
namespace {

// Independent sums enough for two units of latency 6.
void fma_loop() noexcept {
  __m256 sum[12];
  for (__m256& s : sum) s = _mm256_setzero_ps();
  __m256 a = _mm256_set1_ps(1.37F), b = _mm256_set1_ps(-0.73F);
  for (int r = 0; r < kPeakRounds; ++r) {
    asm volatile("" : "+x"(a), "+x"(b));
#pragma GCC unroll 12
    for (__m256& s : sum) s = _mm256_fmadd_ps(a, b, s);
  }
  for (const __m256& s : sum) asm volatile("" : : "x"(s));
}

}  // namespace

void add_peak(Kernels& k) {
  k.peak.f32 = {fma_loop, kPeakRounds * 12 * 16.0, "FMA, 256 bits"};
  k.peak.bf16 = k.peak.f32;
}

}  // namespace lathe::kernels::avx2_impl
