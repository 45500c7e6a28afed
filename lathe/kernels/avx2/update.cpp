#include "lathe/kernels/avx2/simd.h"
#include "lathe/kernels/avx2/words.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/tables.h"
#include "lathe/kernels/update_rows.h"

namespace lathe::kernels::avx2_impl {

void add_update(Kernels& k) { set_update<F16, Words>(k.update); }

}  // namespace lathe::kernels::avx2_impl
