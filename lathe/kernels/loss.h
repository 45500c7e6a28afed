#pragma once
// Cross entropy of some rows of logits. The caller cuts M rows into slabs, so that the whole M x V
// is never stored.

#include "lathe/base/queue.h"
#include "lathe/base/view.h"

namespace lathe::kernels {

inline constexpr i32 kNoTarget = -1;  // a token that no loss is asked for

struct LossKernels {
  /// For each row r: losses[r] = log(sum exp(logits[r,:vocab])) - logits[r, target]; a row with
  /// kNoTarget gives 0. Columns past `vocab` are padding and take no part. logits (R, V) and losses
  /// (R, 1) in the master type. Where dlogits is not empty: dlogits[r,v] = (softmax - onehot)
  /// scale, exactly 0 in rows without a target and in padding. dlogits may lie over logits row by
  /// row (its rows starting at the same byte), in a narrower type.
  void (*cross_entropy)(Queue&, const Tensor& losses, const Tensor& dlogits,
                        const ConstTensor& logits, const i32* targets, i64 vocab,
                        double scale) noexcept;
  /// total[0] += losses, one by one in ascending order, in f64. total: (1, 1) f64.
  void (*add_losses)(Queue&, const Tensor& total, const ConstTensor& losses) noexcept;
};

}  // namespace lathe::kernels
