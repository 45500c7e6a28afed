#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/kernels/tables.h"
#include "lathe/kernels/update_rows.h"
#include "lathe/kernels/words.h"

namespace lathe::kernels::ref_impl {

void add_update(Kernels& k) {
  set_update<Plain<double>, PlainWords>(k.update);
  set_update<Plain<float>, PlainWords>(k.update);
}

}  // namespace lathe::kernels::ref_impl
