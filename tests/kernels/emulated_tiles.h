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
    for (int m = 0; m < 16; ++m)
      for (int n = 0; n < 16; ++n) {
        float half[2] = {0, 0};
        for (int k = 0; k < 32; ++k)
          half[k % 2] = __builtin_fmaf(element(kA, m * 32 + k),
                                       element(kB, k / 2 * 32 + 2 * n + k % 2), half[k % 2]);
        float* c = tile_[kC] + m * 16 + n;
        *c = *c + (half[0] + half[1]);
      }
  }

 private:
  float element(int tile, int i) const {
    bf16 x;
    __builtin_memcpy(&x, reinterpret_cast<const char*>(tile_[tile]) + 2 * i, 2);
    return to_float(x);
  }
  float tile_[8][256] = {};
};

}  // namespace
}  // namespace lathe::kernels
