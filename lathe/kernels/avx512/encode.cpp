#include "lathe/kernels/avx512/simd.h"
#include "lathe/kernels/encode_rows.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::avx512_impl {

void add_encode(Kernels& k) { set_encode<F16>(k.encode); }

}  // namespace lathe::kernels::avx512_impl
