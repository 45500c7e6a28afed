#pragma once
// Self-attention: one product for queries, keys and values, an optional norm of each head of q and
// k, an optional rotation by position, the attention itself, and the projection back.

#include <string>

#include "lathe/base/view.h"
#include "lathe/kernels/attention.h"
#include "lathe/model/config.h"
#include "lathe/model/ctx.h"
#include "lathe/model/linear.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

/// RMS norm of every head of a group of columns, in place. Its gain is shared by the group's heads.
struct HeadNorm {
  ConstTensor gain;  // (1, D); empty: does nothing
  Tensor dgain;
  double eps = 0;

  struct Saved {
    Tensor x, rstd;  // (R, n D) contiguous, as it was before; (R n, 1)
  };

  /// x (R, n D), of any stride; takes `s` from c.keep.
  void forward(Ctx& c, Saved& s, const Tensor& x) const;
  /// dx (R, n D) holds the gradient of the output, and then that of the input.
  void backward(Ctx& c, const Tensor& dx, const Saved& s) const;
};

struct Attention {
  Linear qkv, out;
  HeadNorm q_norm, k_norm;
  i64 heads = 0, kv_heads = 0, head_dim = 0, window = 0;
  ConstTensor angles;  // (T, D) of the rotation; empty: none

  struct Saved {
    HeadNorm::Saved q, k;
    Tensor qkv;      // (R, (H + 2 Hkv) D), normed and rotated
    Tensor context;  // (R, H D), what the heads saw
    Tensor lse;      // (R, H)
  };

  /// The parameters `name`.qkv, .out, …, without angles.
  static Attention of(const parallel::ParamSet& p, const std::string& name, const ModelConfig& m);
  kernels::AttentionShape shape(const numerics::Recipe& r) const;

  /// qkv (R, (H + 2 Hkv) D) of x (R, C), normed and rotated; the first row's position is `first`
  /// more than places tell.
  void project(Ctx& c, const Tensor& qkv, Saved& s, const ConstTensor& x, const kernels::Places& at,
               i64 first) const;
  /// Everything up to s.context; takes all of `s` from c.keep. What is left is `out`.
  void forward(Ctx& c, Saved& s, const ConstTensor& x, const kernels::Places& at) const;
  /// dx (R, C) from the gradient dy of out's result.
  void backward(Ctx& c, const Tensor& dx, const ConstTensor& dy, const ConstTensor& x,
                const Saved& s, const kernels::Places& at) const;

 private:
  void encode(Ctx& c, const Tensor& of) const;
};

}  // namespace lathe::model
