#pragma once
// Both ends of the stack: ids to vectors, and vectors to logits and loss.

#include "lathe/base/view.h"
#include "lathe/model/config.h"
#include "lathe/model/ctx.h"
#include "lathe/model/linear.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

struct Embedding {
  ConstTensor token;     // (V, C) master type
  ConstTensor position;  // (context, C); empty: the blocks know of positions
  Tensor dtoken, dposition;

  static Embedding of(const parallel::ParamSet& p);
  /// x (R, C) residual type.
  void forward(Ctx& c, const Tensor& x, const Batch& b) const;
  /// Adds to dtoken and dposition.
  void backward(Ctx& c, const ConstTensor& dx, const Batch& b) const;
};

struct Head {
  Linear out;      // (V, C)
  i64 tokens = 0;  // columns of the logits that a token can have; the rest is padding

  static Head of(const parallel::ParamSet& p, const ModelConfig& m);
  /// Adds the losses of x's rows (R, C) to loss_sum. Where dx (R, C) is not empty, it becomes the
  /// gradient and out's is added to. Logits exist for a slab of rows at a time.
  void loss(Ctx& c, const Tensor& dx, const ConstTensor& x, const i32* targets,
            const Tensor& loss_sum) const;
};

}  // namespace lathe::model
