#include <gtest/gtest.h>

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/attention.h"
#include "lathe/kernels/gemm.h"
#include "lathe/kernels/kernels.h"
#include "lathe/numerics/format.h"

namespace lathe::kernels {
namespace {

Tensor shape(DType type, i64 rows, i64 cols) { return {nullptr, type, rows, cols, cols}; }

TEST(Dry, AProductOfMbyNbyKIsTwiceTheirProductInOperations) {
  Queue q(0);
  const Operand a{shape(DType::bf16, 7, 11), numerics::Format::bf16, Along::cols};
  const Operand b{shape(DType::bf16, 11, 5), numerics::Format::bf16, Along::rows};
  dry().gemm.product(q, shape(DType::f32, 7, 5), a, b, {});
  EXPECT_EQ(q.work.product_flops, 2 * 7 * 5 * 11);
  EXPECT_EQ(q.work.bytes, 7 * 11 * 2 + 11 * 5 * 2 + 7 * 5 * 4);
  dry().gemm.product(q, shape(DType::f32, 7, 5), a, b, {.add = true, .bias = {}});
  EXPECT_EQ(q.work.bytes, 2 * (7 * 11 * 2 + 11 * 5 * 2) + 3 * 7 * 5 * 4);
}

// Counted one by one: token t sees s when t - window < s <= t.
TEST(Dry, AttentionCountsOnlyThePairsThatSeeEachOther) {
  constexpr i64 kBatch = 2, kHeads = 3, kDim = 4, kTime = 10;
  for (const i64 window : {0, 1, 4, 10, 50}) {
    i64 pairs = 0;
    for (i64 t = 0; t < kTime; ++t)
      for (i64 s = 0; s <= t; ++s) pairs += window == 0 || s > t - window;
    const AttentionShape s{kHeads, kHeads, kDim, window};
    const Tensor qkv = shape(DType::bf16, kBatch * kTime, 3 * kHeads * kDim);
    const Tensor out = shape(DType::bf16, kBatch * kTime, kHeads * kDim);
    const Tensor lse = shape(DType::f32, kBatch * kTime, kHeads);
    Queue q(0);
    dry().attention.forward(q, out, lse, qkv, {nullptr, kBatch, kTime}, s);
    EXPECT_EQ(q.work.attention_flops, kBatch * kHeads * pairs * 2 * 2 * kDim) << window;
    dry().attention.backward(q, qkv, out, out, lse, qkv, {nullptr, kBatch, kTime}, s);
    EXPECT_EQ(q.work.attention_flops, 3 * kBatch * kHeads * pairs * 2 * 2 * kDim) << window;
  }
}

}  // namespace
}  // namespace lathe::kernels
