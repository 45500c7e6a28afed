#pragma once
// The feed-forward half of a block: tanh-GELU between two products, or SwiGLU where gate and up
// are one fused product.

#include <string>

#include "lathe/base/view.h"
#include "lathe/model/ctx.h"
#include "lathe/model/linear.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

struct Mlp {
  Linear up;    // (F, C), or [gate | up] (2F, C)
  Linear down;  // (C, F)
  bool gated = false;

  struct Saved {
    Tensor pre;     // (R, F) or (R, 2F): up's result; backward leaves its own gradient in it
    Tensor hidden;  // (R, F): down's input
  };

  /// The parameters `name`.gate_up or `name`.up, and `name`.down.
  static Mlp of(const parallel::ParamSet& p, const std::string& name);

  /// Everything up to s.hidden; takes all of `s` from c.keep. What is left is `down`.
  void forward(Ctx& c, Saved& s, const ConstTensor& x) const;
  /// dx (R, C) from the gradient dy of down's result. Spends s.pre.
  void backward(Ctx& c, const Tensor& dx, const ConstTensor& dy, const ConstTensor& x,
                const Saved& s) const;
};

}  // namespace lathe::model
