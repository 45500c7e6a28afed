#pragma once
// What this machine's arithmetic reaches with all operands in registers, measured now: the top of
// every scale. Data are random bits of ordinary size, since matrix hardware slows down on them.

#include <immintrin.h>

#include <ctime>
#include <string_view>

#include "lathe/base/cpu.h"
#include "lathe/base/queue.h"
#include "lathe/kernels/amx/tile.h"

namespace lathe::bench {

/// A loop over one instruction: operations done and its name.
struct PeakLoop {
  std::string_view name;
  double operations;  // of one call
  void (*run)();
};

inline constexpr int kPeakRounds = 2000;

// Independent sums enough for two units of latency 6.
[[gnu::target("avx512f")]] inline void fma_peak() {
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

[[gnu::target("avx2,fma")]] inline void fma256_peak() {
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

[[gnu::target("avx512f,avx512bf16")]] inline void dot_peak() {
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

inline void tile_peak() {
  alignas(64) static const auto data = [] {
    struct {
      u16 x[512];
    } d{};
    for (int i = 0; i < 512; ++i) d.x[i] = static_cast<u16>(0x3f80 ^ (i * 40503 & 0x807f));
    return d;
  }();
  kernels::HardwareTiles t;
  t.load<2>(&data);
  t.load<3>(&data);
  for (int r = 0; r < kPeakRounds; ++r) {
    t.dot<0, 2, 3>();
    t.dot<1, 2, 3>();
  }
}

/// The best loop that this machine has for products of BF16 or float operands.
inline PeakLoop peak_loop(bool bf16_operands) {
  if (bf16_operands && why_not(Isa::amx).empty())
    return {"TDPBF16PS", kPeakRounds * 2 * 16384.0, tile_peak};
  // Where VDPBF16PS is half as frequent as FMA it does no more than that.
  if (bf16_operands && why_not(Isa::avx512bf16).empty() && cpu().vendor != "GenuineIntel")
    return {"VDPBF16PS", kPeakRounds * 16 * 64.0, dot_peak};
  if (why_not(Isa::avx512).empty()) return {"FMA, 512 bits", kPeakRounds * 16 * 32.0, fma_peak};
  return {"FMA, 256 bits", kPeakRounds * 12 * 16.0, fma256_peak};
}

/// What a timing counts: the time that passed, or the time that the calling thread ran.
enum class Time : u8 { passed, processor };

inline double now(Time time) {
  timespec t{};
  clock_gettime(time == Time::passed ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Operations a second on all threads of `q` together, right now: about a millisecond.
inline double measure_peak(Queue& q, const PeakLoop& loop, Time time) {
  constexpr int kRepeats = 16;
  const i64 pieces = q.threads() * kRepeats;
  const double begin = now(time);
  for_pieces(q, pieces, [&](i64, int) { loop.run(); });
  return static_cast<double>(pieces) * loop.operations / (now(time) - begin);
}

}  // namespace lathe::bench
