#include "lathe/kernels/attention_outer.h"
#include "lathe/kernels/attention_types.h"
#include "lathe/kernels/avx2/simd.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::avx2_impl {

namespace {

// Of sixteen registers, BF16's three sums leave room for two rows of one panel, one chain for four.
using Groups = OuterProducts<PlainWords<F16, true>, true, RegisterTile<2, 1>>;
using Chain = OuterProducts<PlainWords<F16, false>, false, RegisterTile<4, 1>>;

}  // namespace

void add_attention(Kernels& k) { FloatAttention<Groups, Chain>::add(k.attention); }

}  // namespace lathe::kernels::avx2_impl
