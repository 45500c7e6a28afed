#pragma once

#include "lathe/base/arena.h"
#include "lathe/base/queue.h"
#include "lathe/kernels/kernels.h"
#include "lathe/numerics/recipe.h"

namespace lathe::model {

/// What a layer needs from the outside. Built once per step; layers keep no reference to it.
struct Ctx {
  const kernels::Kernels& k;
  const numerics::Recipe& recipe;
  Queue& q;
  Arena& keep;  // lives until this micro-batch's backward pass is done
  Arena& temp;  // lives until the enclosing frame ends
};

/// One micro-batch. All (B, T), T being a multiple of 32: shorter contexts are padded by tokens
/// without a target, each a document of its own.
struct Batch {
  const i32* ids = nullptr;
  const i32* targets = nullptr;  // kernels::kNoTarget: no loss is asked for
  const i32* doc_start = nullptr;
  i64 batch = 0, time = 0;

  i64 rows() const { return batch * time; }
  kernels::Places places() const { return {doc_start, batch, time}; }
};

/// Sums over tokens go in groups of 32 (kernels/gemm.h): padding every sequence to this makes the
/// gradient's bits independent of how the batch is cut into micro-batches.
inline constexpr i64 kTimeMultiple = 32;
constexpr i64 padded_time(i64 context) {
  return (context + kTimeMultiple - 1) / kTimeMultiple * kTimeMultiple;
}

}  // namespace lathe::model
