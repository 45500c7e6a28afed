#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/kernels/loss_rows.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::ref_impl {

void add_loss(Kernels& k) {
  set_loss<Plain<double>>(k.loss);
  set_loss<Plain<float>>(k.loss);
}

}  // namespace lathe::kernels::ref_impl
