#pragma once
// The tile registers. In asm of our own, because GCC 12's intrinsics declare too little of the
// memory they touch: stores to an operand may be moved past its load, and most of a configuration
// is dropped as never read.

#include "lathe/base/view.h"

namespace lathe::kernels {
namespace {

/// Eight tiles of 16 rows of 64 bytes, for as long as this lives. Tiles belong to a thread: each
/// piece of work has its own. A tile that holds nothing but zeros costs nothing; one that holds
/// data takes, on a core whose other hyperthread is awake, from what the others may use: so the
/// inner loop keeps four alive, and the rest stay as they are after the configuration, zero.
class HardwareTiles {
 public:
  LATHE_INLINE HardwareTiles() {
    // Palette 1 (Intel SDM, volume 1, 18.3): bytes of a row at 16, rows at 48.
    alignas(64) u8 config[64] = {1};
    for (int t = 0; t < 8; ++t) {
      config[16 + 2 * t] = 64;
      config[48 + t] = 16;
    }
    asm volatile("ldtilecfg %0" : : "m"(config) : "memory");
  }
  LATHE_INLINE ~HardwareTiles() { asm volatile("tilerelease" : : : "memory"); }
  HardwareTiles(const HardwareTiles&) = delete;
  HardwareTiles& operator=(const HardwareTiles&) = delete;

  template <int kTile>
  LATHE_INLINE void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  /// Rows are 64 bytes apart, here and in store.
  template <int kTile>
  LATHE_INLINE void load(const void* from) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
                 :
                 : "r"(from), "r"(i64{64}), "i"(kTile)
                 : "memory");
  }
  template <int kTile>
  LATHE_INLINE void store(void* to) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(i64{64}), "i"(kTile) : "memory");
  }
  /// c += a b: 16 x 32 elements of a, rows as they are; of b, pairs of rows side by side.
  template <int kC, int kA, int kB>
  LATHE_INLINE void dot() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kC), "i"(kA), "i"(kB));
  }
};

}  // namespace
}  // namespace lathe::kernels
