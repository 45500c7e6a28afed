#pragma once
// Turns instances of attention into entries of a table: chooses, once a call, by the type that
// activations lie in and by the format of the products' operands.

#include "lathe/kernels/attention_backward.h"
#include "lathe/kernels/attention_forward.h"

namespace lathe::kernels {

/// No products of its own: the table's earlier entries keep the format.
struct Inherited {};

/// Single precision, through `Groups` where operands are BF16 and through `Chain` where they are
/// F32. What it does not know, doubles among them, it leaves to the entries it replaces.
template <class Groups, class Chain>
struct FloatAttention {
  static void add(AttentionKernels& k) {
    before() = k;
    k = {&forward_any, &backward_any, &decode_any};
  }

 private:
  static AttentionKernels& before() {
    static AttentionKernels kernels;
    return kernels;
  }
  /// Calls f.operator()<P, T>() for the instance meant; false: there is none.
  template <class F>
  LATHE_INLINE static bool choose(DType type, numerics::Format format, const F& f) {
    using numerics::Format;
    // Not by numerics::info: its table would be a symbol that files of other flags share.
    if (format == Format::f64) return false;
    if (format == Format::f32 || format == Format::tf32 || format == Format::fp16)
      return choose_type<Chain>(type, f);
    return choose_type<Groups>(type, f);
  }
  template <class P, class F>
  LATHE_INLINE static bool choose_type(DType type, const F& f) {
    if constexpr (!std::is_same_v<P, Inherited>) {
      if (type == DType::bf16) return f.template operator()<P, bf16>(), true;
      if (type == DType::f32) return f.template operator()<P, float>(), true;
    }
    return false;
  }

  static void forward_any(Queue& q, const Tensor& out, const Tensor& lse, const ConstTensor& qkv,
                          const Places& at, const AttentionShape& s) noexcept {
    if (!choose(qkv.type, s.format,
                [&]<class P, class T>() { forward<P, T>(q, out, lse, qkv, at, s); }))
      before().forward(q, out, lse, qkv, at, s);
  }
  static void backward_any(Queue& q, const Tensor& dqkv, const ConstTensor& dout,
                           const ConstTensor& out, const ConstTensor& lse, const ConstTensor& qkv,
                           const Places& at, const AttentionShape& s) noexcept {
    if (!choose(qkv.type, s.format,
                [&]<class P, class T>() { backward<P, T>(q, dqkv, dout, out, lse, qkv, at, s); }))
      before().backward(q, dqkv, dout, out, lse, qkv, at, s);
  }
  static void decode_any(Queue& queue, const Tensor& out, const ConstTensor& q,
                         const ConstTensor& keys, const ConstTensor& values, i64 length,
                         const AttentionShape& s) noexcept {
    if (!choose(q.type, s.format,
                [&]<class P, class T>() { decode<P, T>(queue, out, q, keys, values, length, s); }))
      before().decode(queue, out, q, keys, values, length, s);
  }
};

}  // namespace lathe::kernels
