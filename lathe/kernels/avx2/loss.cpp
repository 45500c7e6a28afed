#include "lathe/kernels/avx2/simd.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/loss_rows.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::avx2_impl {

void add_loss(Kernels& k) { set_loss<F16>(k.loss); }

}  // namespace lathe::kernels::avx2_impl
