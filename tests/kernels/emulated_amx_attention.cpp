#include "tests/kernels/emulated_amx_attention.h"

#include "lathe/kernels/amx/attention_tiles.h"
#include "lathe/kernels/attention.h"
#include "lathe/kernels/attention_types.h"
#include "lathe/kernels/kernels.h"
#include "tests/kernels/emulated_tiles.h"

namespace lathe::kernels {

AttentionKernels emulated_amx_attention() {
  AttentionKernels k = avx512bf16().attention;
  FloatAttention<TileProducts<EmulatedTiles>, Inherited>::add(k);
  return k;
}

}  // namespace lathe::kernels
