#include "lathe/kernels/encode_rows.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::ref_impl {

void add_encode(Kernels& k) { set_encode<Plain<float>>(k.encode); }

}  // namespace lathe::kernels::ref_impl
