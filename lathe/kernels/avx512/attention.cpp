#include "lathe/kernels/attention_outer.h"
#include "lathe/kernels/attention_types.h"
#include "lathe/kernels/avx512/attention_simd.h"
#include "lathe/kernels/avx512/simd.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::avx512_impl {

namespace {

template <bool kRounded>
struct Words : PlainWords<F16, kRounded> {
  LATHE_INLINE static void transpose(float* t) { transpose_floats(t); }
};

// Of thirty-two registers, BF16's three sums leave room for four rows of two panels, one chain for
// eight.
using Groups = OuterProducts<Words<true>, true, RegisterTile<4, 2>>;
using Chain = OuterProducts<Words<false>, false, RegisterTile<8, 2>>;

}  // namespace

void add_attention(Kernels& k) { FloatAttention<Groups, Chain>::add(k.attention); }

}  // namespace lathe::kernels::avx512_impl
