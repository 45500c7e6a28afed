#include "lathe/kernels/peak.h"

#include <immintrin.h>

#include "lathe/kernels/kernels.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::avx512bf16_impl {
namespace {

void dot_loop() noexcept {
  __m512 sum[16];
  for (__m512& s : sum) s = _mm512_setzero_ps();
  __m512i a = _mm512_set1_epi32(0x3fb13e97), b = _mm512_set1_epi32(static_cast<int>(0xbf3b3f6d));
  for (int r = 0; r < kPeakRounds; ++r) {
    asm volatile("" : "+v"(a), "+v"(b));
#pragma GCC unroll 16
    for (__m512& s : sum)
      s = _mm512_dpbf16_ps(s, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
  for (const __m512& s : sum) asm volatile("" : : "v"(s));
}

}  // namespace

void add_peak(Kernels& k) { k.peak.bf16 = {dot_loop, kPeakRounds * 16 * 64.0, "VDPBF16PS"}; }

}  // namespace lathe::kernels::avx512bf16_impl
