#pragma once

#include "lathe/base/arena.h"
#include "lathe/base/queue.h"
#include "lathe/kernels/encode.h"
#include "lathe/kernels/kernels.h"
#include "lathe/numerics/recipe.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

/// What a layer needs from the outside. Built once per step; layers keep no reference to it.
struct Ctx {
  const kernels::Kernels& k;
  const numerics::Recipe& recipe;
  Queue& q;
  Arena& keep;  // lives until this micro-batch's backward pass is done
  Arena& temp;  // lives until the enclosing frame ends
  // Where this micro-batch stands: seed, step (as the stream), number of its first row in the step.
  kernels::Draws at = {};
  bool learning = false;                   // what is seen now decides scales of later steps
  double loss_scale = 1;                   // multiplies the gradient of the loss
  const parallel::Probe* probe = nullptr;  // null: nobody wants to know

  /// The same context, but nothing outlives the enclosing frame.
  Ctx passing() const { return {k, recipe, q, temp, temp, at, learning, loss_scale, probe}; }
};

/// One micro-batch. All (B, T), T being a multiple of padded_time's: shorter contexts are padded by
/// tokens without a target, each a document of its own.
struct Batch {
  const i32* ids = nullptr;
  const i32* targets = nullptr;  // kernels::kNoTarget: no loss is asked for
  const i32* doc_start = nullptr;
  i64 batch = 0, time = 0;

  i64 rows() const { return batch * time; }
  kernels::Places places() const { return {doc_start, batch, time}; }
};

/// Sums over tokens go in groups of 32 (kernels/gemm.h), and scales may belong to blocks of more
/// (numerics::time_multiple): padding every sequence to such a multiple makes the gradient's bits
/// independent of how the batch is cut into micro-batches.
inline constexpr i64 kTimeMultiple = 32;
constexpr i64 padded_time(i64 context, i64 multiple = kTimeMultiple) {
  return (context + multiple - 1) / multiple * multiple;
}

}  // namespace lathe::model
