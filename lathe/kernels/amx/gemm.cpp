// Products of BF16 operands with TDPBF16PS.

#include "lathe/kernels/amx/gemm_tiles.h"
#include "lathe/kernels/amx/tile.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::amx_impl {

namespace {

decltype(GemmKernels::product) inherited = nullptr;

/// Sixteen rows share a tile: fewer are better served by vectors.
void product(Queue& q, const Tensor& c, const Operand& a, const Operand& b,
             const Epilogue& e) noexcept {
  if (a.data.type != DType::bf16 || c.rows <= kFewRows || !chunks_fit(a, b))
    return inherited(q, c, a, b, e);
  blocked_product<TileProduct<HardwareTiles>>(q, c, a, b, e);
}

}  // namespace

void add_gemm(Kernels& k) {
  inherited = k.gemm.product;
  k.gemm.product = product;
}

}  // namespace lathe::kernels::amx_impl
