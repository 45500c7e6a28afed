#pragma once
// Tile registers modelled in plain C++. For files that are compiled for an instruction set.

#include "lathe/base/view.h"
#include "lathe/kernels/lanes.h"

namespace lathe::kernels {
namespace {

/// What TDPBF16PS computes, as measured on Sapphire and Emerald Rapids: per sum, the even and the
/// odd elements of a group in two chains of fused multiply-adds from +0, then c + (even + odd),
/// with subnormals as zero, which the queue sees to.
class EmulatedTiles {
 public:
  template <int kTile>
  void zero() {
    __builtin_memset(tile_[kTile], 0, 1024);
  }
  template <int kTile>
  void load(const void* from) {
    __builtin_memcpy(tile_[kTile], from, 1024);
  }
  template <int kTile>
  void store(void* to) {
    __builtin_memcpy(to, tile_[kTile], 1024);
  }
  template <int kC, int kA, int kB>
  void dot() {
    float a[512], b[512];  // a (16, 32); b (16 pairs, 16 columns, 2)
    widen(a, tile_[kA]);
    widen(b, tile_[kB]);
    for (int m = 0; m < 16; ++m) {
      float half[32] = {};  // the even and the odd chain of each column, side by side
      for (int pair = 0; pair < 16; ++pair) {
        const float* x = a + m * 32 + 2 * pair;
        for (int i = 0; i < 32; ++i) half[i] = __builtin_fmaf(x[i % 2], b[pair * 32 + i], half[i]);
      }
      float* c = tile_[kC] + m * 16;
      for (int n = 0; n < 16; ++n) c[n] = c[n] + (half[2 * n] + half[2 * n + 1]);
    }
  }

 private:
  static void widen(float* to, const float* tile) {
    bf16 x[512];
    __builtin_memcpy(x, tile, 1024);
    for (int i = 0; i < 512; ++i) to[i] = to_float(x[i]);
  }
  float tile_[8][256] = {};
};

}  // namespace
}  // namespace lathe::kernels
