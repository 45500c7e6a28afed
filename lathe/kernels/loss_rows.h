#pragma once
// loss.h over any lane type.

#include <limits>

#include "lathe/kernels/loss.h"
#include "lathe/kernels/math.h"
#include "lathe/kernels/row_work.h"

namespace lathe::kernels {

/// What one row of logits amounts to.
template <Lanes L>
struct SoftMax {
  typename L::Scalar max, sum;  // of the logits; of exp(logit - max)
};

template <Lanes L, class S = typename L::Scalar>
LATHE_INLINE SoftMax<L> soft_max(const S* x, i64 vocab) {
  const L lowest = L::broadcast(-std::numeric_limits<double>::infinity());
  L top = lowest;
  for_lanes(vocab,
            [&](i64 i, auto n) { top = max(top, select(L::first(n), L::load(x + i, n), lowest)); });
  const L most = L::broadcast(top.hmax());
  L sums = L::broadcast(0);
  for_lanes(vocab, [&](i64 i, auto n) {
    sums = sums + select(L::first(n), exp(L::load(x + i, n) - most), L::broadcast(0));
  });
  return {most.lane0(), sums.sum()};
}

/// log(sum) - (x[target] - max): the maximum never meets the logarithm, so that a large common
/// part of the logits costs nothing.
template <Lanes L, class S = typename L::Scalar>
LATHE_INLINE S row_loss(const S* x, i32 target, const SoftMax<L>& m) {
  return log(L::broadcast(m.sum)).lane0() - (x[target] - m.max);
}

/// d = (softmax(x) - onehot(target)) scale, 0 past vocab. d may start where x does, in a narrower
/// type: a lane is read before what is written can reach it.
template <Lanes L, class D, class S = typename L::Scalar>
LATHE_INLINE void row_loss_backward(D* d, const S* x, i32 target, const SoftMax<L>& m, i64 vocab,
                                    i64 V, S scale) {
  const L times = L::broadcast(scale);
  const L most = L::broadcast(m.max), share = L::broadcast(1) / L::broadcast(m.sum);
  const i64 hot = target / kLanes * kLanes;
  for_lanes(vocab, [&](i64 i, auto n) {
    L p = exp(L::load(x + i, n) - most) * share;
    if (i == hot) {
      const i64 lane = target - hot;
      const auto at_target = L::first(lane + 1) & !L::first(lane);
      p = select(at_target, p - L::broadcast(1), p);
    }
    (p * times).store(d + i, n);
  });
  for_lanes(V - vocab, [&](i64 i, auto n) { L::broadcast(0).store(d + vocab + i, n); });
}

template <Lanes L>
void cross_entropy(Queue& q, const Tensor& losses, const Tensor& dlogits, const ConstTensor& logits,
                   const i32* targets, i64 vocab, double scale) noexcept {
  using S = typename L::Scalar;
  with_any_type<L>(dlogits.type, [&]<class D>(Type<D>) {
    for_rows<L>(q, logits.rows, logits.cols, [&](i64 r) {
      const S* x = logits.row<S>(r);
      const bool gradient = !dlogits.empty();
      if (targets[r] == kNoTarget) {
        *losses.row<S>(r) = 0;
        if (gradient)
          for_lanes(logits.cols,
                    [&](i64 i, auto n) { L::broadcast(0).store(dlogits.row<D>(r) + i, n); });
        return;
      }
      const SoftMax<L> m = soft_max<L>(x, vocab);
      *losses.row<S>(r) = row_loss<L>(x, targets[r], m);
      if (gradient)
        row_loss_backward<L>(dlogits.row<D>(r), x, targets[r], m, vocab, logits.cols,
                             static_cast<S>(scale));
    });
  });
}

template <Lanes L>
void add_losses(Queue& q, const Tensor& total, const ConstTensor& losses) noexcept {
  using S = typename L::Scalar;
  for_pieces(q, 1, [&](i64, int) {
    double sum = *total.row<double>(0);
    for (i64 r = 0; r < losses.rows; ++r) sum += static_cast<double>(*losses.row<S>(r));
    *total.row<double>(0) = sum;
  });
}

template <Lanes L>
LATHE_INLINE void set_loss(LossKernels& k) {
  set_entry<L, &LossKernels::cross_entropy, &cross_entropy<L>>(k);
  set_entry<L, &LossKernels::add_losses, &add_losses<L>, 1>(k);
}

}  // namespace lathe::kernels
