#pragma once
// Causal attention over packed documents, and over a cache. Nothing T x T is ever stored.

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/pointwise.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"

namespace lathe::kernels {

/// B rows of T tokens; H query heads, of which H / kv_heads share one key and value head of size D.
struct AttentionShape {
  i64 heads, kv_heads, head_dim;
  i64 window = 0;  // tokens that a token sees, itself included; 0: all
  // How the products' operands lie (its storage type), and what the weights are rounded to: a
  // format without scales, or with Scaling::shift, by which 1 becomes the largest power of two that
  // the format holds.
  numerics::Format format = numerics::Format::bf16;
  numerics::Encoding weights = {};
};

/// Pairs (t, s) that one head of one sequence looks at: those of a single document that fills it.
constexpr i64 visible_pairs(i64 time, i64 window) {
  const i64 w = window > 0 && window < time ? window : time;
  return w * (w + 1) / 2 + (time - w) * w;
}

/// qkv (B*T, (H + 2 Hkv) D) = [q heads | k heads | v heads], out (B*T, H*D), all in the activation
/// type. Token t sees s when doc_start[t] <= s <= t and s > t - window. Scores are scaled by
/// 1/sqrt(D); soft maximum, sums and corrections are in the master type. Products follow the order
/// of gemm.h within a block of keys; blocks follow one another in ascending order
/// (docs/numerics.md). A masked pair contributes exactly nothing.
struct AttentionKernels {
  /// lse (B*T, H) = log of the sum of exp of the scaled scores, kept for backward.
  void (*forward)(Queue&, const Tensor& out, const Tensor& lse, const ConstTensor& qkv,
                  const Places& at, const AttentionShape& s) noexcept;
  /// dqkv = gradient (written, not added). Uses nothing but its operands and the queue's scratch.
  void (*backward)(Queue&, const Tensor& dqkv, const ConstTensor& dout, const ConstTensor& out,
                   const ConstTensor& lse, const ConstTensor& qkv, const Places& at,
                   const AttentionShape& s) noexcept;
  /// One query token per row of a batch against a cache: q (1, H*D); keys, values (length, Hkv*D),
  /// the query being the last of `length` tokens. out (1, H*D).
  void (*decode)(Queue&, const Tensor& out, const ConstTensor& q, const ConstTensor& keys,
                 const ConstTensor& values, i64 length, const AttentionShape& s) noexcept;
};

}  // namespace lathe::kernels
