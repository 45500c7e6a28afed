// Attention in plain C++.

#include "lathe/kernels/attention.h"

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/attention_backward.h"
#include "lathe/kernels/attention_forward.h"
#include "lathe/kernels/attention_outer.h"
#include "lathe/kernels/attention_types.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/kernels/pointwise.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::ref_impl {

namespace {

template <class S, bool kRounded>
using Products = OuterProducts<PlainWords<Plain<S>, kRounded>, kRounded, RegisterTile<1, 1>>;
using Doubles = Products<double, false>;

}  // namespace

void add_attention(Kernels& k) {
  k.attention = {
      [](Queue& q, const Tensor& out, const Tensor& lse, const ConstTensor& qkv, const Places& at,
         const AttentionShape& s) noexcept { forward<Doubles, double>(q, out, lse, qkv, at, s); },
      [](Queue& q, const Tensor& dqkv, const ConstTensor& dout, const ConstTensor& out,
         const ConstTensor& lse, const ConstTensor& qkv, const Places& at,
         const AttentionShape& s) noexcept {
        backward<Doubles, double>(q, dqkv, dout, out, lse, qkv, at, s);
      },
      [](Queue& queue, const Tensor& out, const ConstTensor& q, const ConstTensor& keys,
         const ConstTensor& values, i64 length, const AttentionShape& s) noexcept {
        decode<Doubles, double>(queue, out, q, keys, values, length, s);
      }};
  FloatAttention<Products<float, true>, Products<float, false>>::add(k.attention);
}

}  // namespace lathe::kernels::ref_impl
