#include "lathe/kernels/peak.h"

#include <immintrin.h>

#include "lathe/kernels/kernels.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::avx512_impl {
namespace {

// Independent sums enough for two units of latency 6.
void fma_loop() noexcept {
  __m512 sum[16];
  for (__m512& s : sum) s = _mm512_setzero_ps();
  __m512 a = _mm512_set1_ps(1.37F), b = _mm512_set1_ps(-0.73F);
  for (int r = 0; r < kPeakRounds; ++r) {
    asm volatile("" : "+v"(a), "+v"(b));
#pragma GCC unroll 16
    for (__m512& s : sum) s = _mm512_fmadd_ps(a, b, s);
  }
  for (const __m512& s : sum) asm volatile("" : : "v"(s));
}

}  // namespace

void add_peak(Kernels& k) {
  k.peak.f32 = {fma_loop, kPeakRounds * 16 * 32.0, "FMA, 512 bits"};
  k.peak.bf16 = k.peak.f32;
}

}  // namespace lathe::kernels::avx512_impl
