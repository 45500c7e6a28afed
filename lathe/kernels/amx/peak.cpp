#include "lathe/kernels/peak.h"

#include "lathe/base/view.h"
#include "lathe/kernels/amx/tile.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::amx_impl {
namespace {

struct alignas(64) RandomTile {
  u16 bits[512] = {};
};

constexpr RandomTile random_tile() {
  RandomTile t;
  for (int i = 0; i < 512; ++i) t.bits[i] = static_cast<u16>(0x3f80 ^ (i * 40503 & 0x807f));
  return t;
}

constexpr RandomTile kRandom = random_tile();

void tile_loop() noexcept {
  HardwareTiles t;
  t.load<2>(&kRandom);
  t.load<3>(&kRandom);
  for (int r = 0; r < kPeakRounds; ++r) {
    t.dot<0, 2, 3>();
    t.dot<1, 2, 3>();
  }
}

}  // namespace

void add_peak(Kernels& k) { k.peak.bf16 = {tile_loop, kPeakRounds * 2 * 16384.0, "TDPBF16PS"}; }

}  // namespace lathe::kernels::amx_impl
