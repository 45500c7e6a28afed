#include "lathe/kernels/amx/attention_tiles.h"
#include "lathe/kernels/amx/tile.h"
#include "lathe/kernels/attention_types.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::amx_impl {

void add_attention(Kernels& k) {
  FloatAttention<TileProducts<HardwareTiles>, Inherited>::add(k.attention);
}

}  // namespace lathe::kernels::amx_impl
