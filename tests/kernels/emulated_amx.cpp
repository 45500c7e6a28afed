#include "tests/kernels/emulated_amx.h"

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/amx/gemm_tiles.h"
#include "lathe/kernels/gemm.h"
#include "lathe/kernels/gemm_blocked.h"
#include "lathe/kernels/kernels.h"
#include "tests/kernels/emulated_tiles.h"

namespace lathe::kernels {

namespace {

void product(Queue& q, const Tensor& c, const Operand& a, const Operand& b,
             const Epilogue& e) noexcept {
  if (a.data.type != DType::bf16 || c.rows <= kFewRows || !chunks_fit(a, b))
    return avx512bf16().gemm.product(q, c, a, b, e);
  blocked_product<TileProduct<EmulatedTiles>>(q, c, a, b, e);
}

}  // namespace

decltype(GemmKernels::product) emulated_amx_product() { return product; }

}  // namespace lathe::kernels
