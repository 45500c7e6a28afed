// Attention in plain C++.

#include "lathe/kernels/attention_backward.h"
#include "lathe/kernels/attention_fma.h"
#include "lathe/kernels/attention_types.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::ref_impl {

namespace {

using One = Block<1, 1>;
using Groups = FmaProducts<Plain<float>, true, One>;
using Chain = FmaProducts<Plain<float>, false, One>;
using Doubles = FmaProducts<Plain<double>, false, One>;

void forward_all(Queue& q, const Tensor& out, const Tensor& lse, const ConstTensor& qkv,
                 const Places& at, const AttentionShape& s) noexcept {
  if (qkv.type == DType::f64)
    forward<Doubles, double>(q, out, lse, qkv, at, s);
  else
    forward_floats<Groups, Chain>(q, out, lse, qkv, at, s);
}

void backward_all(Queue& q, const Tensor& dqkv, const ConstTensor& dout, const ConstTensor& out,
                  const ConstTensor& lse, const ConstTensor& qkv, const Places& at,
                  const AttentionShape& s) noexcept {
  if (qkv.type == DType::f64)
    backward<Doubles, double>(q, dqkv, dout, out, lse, qkv, at, s);
  else
    backward_floats<Groups, Chain>(q, dqkv, dout, out, lse, qkv, at, s);
}

void decode_all(Queue& queue, const Tensor& out, const ConstTensor& q, const ConstTensor& keys,
                const ConstTensor& values, i64 length, const AttentionShape& s) noexcept {
  if (q.type == DType::f64)
    decode<Doubles, double>(queue, out, q, keys, values, length, s);
  else
    decode_floats<Groups, Chain>(queue, out, q, keys, values, length, s);
}

}  // namespace

void add_attention(Kernels& k) { k.attention = {forward_all, backward_all, decode_all}; }

}  // namespace lathe::kernels::ref_impl
