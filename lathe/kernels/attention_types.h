#pragma once
// Chooses, once a call, among the instances of attention that compute in single precision: by the
// type that activations lie in, and by the format of the products' operands.

#include "lathe/kernels/attention_backward.h"
#include "lathe/kernels/attention_forward.h"

namespace lathe::kernels {

template <class Groups, class Chain>
LATHE_INLINE void forward_floats(Queue& q, const Tensor& out, const Tensor& lse,
                                 const ConstTensor& qkv, const Places& at,
                                 const AttentionShape& s) {
  const bool groups = s.format == numerics::Format::bf16;
  if (qkv.type == DType::bf16)
    groups ? forward<Groups, bf16>(q, out, lse, qkv, at, s)
           : forward<Chain, bf16>(q, out, lse, qkv, at, s);
  else
    groups ? forward<Groups, float>(q, out, lse, qkv, at, s)
           : forward<Chain, float>(q, out, lse, qkv, at, s);
}

template <class Groups, class Chain>
LATHE_INLINE void backward_floats(Queue& q, const Tensor& dqkv, const ConstTensor& dout,
                                  const ConstTensor& out, const ConstTensor& lse,
                                  const ConstTensor& qkv, const Places& at,
                                  const AttentionShape& s) {
  const bool groups = s.format == numerics::Format::bf16;
  if (qkv.type == DType::bf16)
    groups ? backward<Groups, bf16>(q, dqkv, dout, out, lse, qkv, at, s)
           : backward<Chain, bf16>(q, dqkv, dout, out, lse, qkv, at, s);
  else
    groups ? backward<Groups, float>(q, dqkv, dout, out, lse, qkv, at, s)
           : backward<Chain, float>(q, dqkv, dout, out, lse, qkv, at, s);
}

template <class Groups, class Chain>
LATHE_INLINE void decode_floats(Queue& queue, const Tensor& out, const ConstTensor& q,
                                const ConstTensor& keys, const ConstTensor& values, i64 length,
                                const AttentionShape& s) {
  const bool groups = s.format == numerics::Format::bf16;
  if (q.type == DType::bf16)
    groups ? decode<Groups, bf16>(queue, out, q, keys, values, length, s)
           : decode<Chain, bf16>(queue, out, q, keys, values, length, s);
  else
    groups ? decode<Groups, float>(queue, out, q, keys, values, length, s)
           : decode<Chain, float>(queue, out, q, keys, values, length, s);
}

}  // namespace lathe::kernels
