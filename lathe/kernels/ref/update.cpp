#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/kernels/tables.h"
#include "lathe/kernels/update_rows.h"

namespace lathe::kernels::ref_impl {

void add_update(Kernels& k) {
  set_update<Plain<double>>(k.update);
  set_update<Plain<float>>(k.update);
}

}  // namespace lathe::kernels::ref_impl
