#include "lathe/kernels/avx512/simd.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/pointwise_rows.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::avx512_impl {

void add_pointwise(Kernels& k) { set_pointwise<F16>(k.pointwise); }

}  // namespace lathe::kernels::avx512_impl
