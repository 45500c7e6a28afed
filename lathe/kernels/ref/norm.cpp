#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/kernels/norm_rows.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::ref_impl {

void add_norm(Kernels& k) {
  set_norm<Plain<double>>(k.norm);
  set_norm<Plain<float>>(k.norm);
}

}  // namespace lathe::kernels::ref_impl
