#include "lathe/kernels/avx512/simd.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/norm_rows.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::avx512_impl {

void add_norm(Kernels& k) { set_norm<F16>(k.norm); }

}  // namespace lathe::kernels::avx512_impl
