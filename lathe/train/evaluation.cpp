#include "lathe/train/evaluation.h"

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/error.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/loss.h"
#include "lathe/model/ctx.h"
#include "lathe/model/transformer.h"
#include "lathe/numerics/recipe.h"
#include "lathe/train/checkpoint.h"

namespace lathe::train {
namespace {

Tensor take_state(model::Transformer& t, model::Ctx& c, Arena& state) {
  t.take_state(c, state, false);
  return state.take("loss", DType::f64, 1, 1);
}

/// Bytes of state, of what is kept, and of scratch that one stretch takes.
struct Sizes {
  i64 state, kept, scratch;
};

Sizes measure(LoadedModel& m) {
  Queue q(0);
  Arena state("state"), kept("kept"), scratch("scratch");
  model::Transformer t(m.info.model, m.params);
  model::Ctx c{kernels::dry(), *m.recipe, q, kept, scratch};
  const Tensor loss = take_state(t, c, state);
  t.evaluate(c,
             {nullptr, nullptr, nullptr, 1,
              model::padded_time(m.info.model.context, numerics::time_multiple(*m.recipe))},
             loss);
  return {state.peak(), kept.peak(), scratch.peak()};
}

}  // namespace

Evaluation::Evaluation(LoadedModel& m, const kernels::Kernels& k, Queue& q, i32 end_of_text)
    : context_(m.info.model.context),
      end_of_text_(end_of_text),
      transformer_(m.info.model, m.params),
      state_("state", measure(m).state),
      kept_("kept", measure(m).kept),
      scratch_("scratch", measure(m).scratch),
      ctx_{k, *m.recipe, q, kept_, scratch_} {
  m.params.refresh_work(q, k);
  loss_sum_ = take_state(transformer_, ctx_, state_);
  k.pointwise.zero(q, loss_sum_);
  const auto time =
      static_cast<std::size_t>(model::padded_time(context_, numerics::time_multiple(*m.recipe)));
  ids_.resize(time);
  targets_.resize(time);
  doc_start_.resize(time);
}

void Evaluation::begin_document() {
  end_document();
  open_ = true;
  ++sum_.documents;
  start_ = used_;
  last_ = end_of_text_;
}

void Evaluation::end_document() {
  if (open_) push(last_, end_of_text_);
  open_ = false;
}

void Evaluation::add(const std::vector<i32>& ids, i64 bytes) {
  sum_.bytes += bytes;
  for (const i32 id : ids) push(std::exchange(last_, id), id);
}

void Evaluation::push(i32 input, i32 target) {
  const auto at = static_cast<std::size_t>(used_);
  ids_[at] = input;
  targets_[at] = target;
  doc_start_[at] = static_cast<i32>(start_);
  ++sum_.tokens;
  if (++used_ == context_) flush();
}

void Evaluation::flush() {
  if (used_ == 0) return;
  for (std::size_t t = static_cast<std::size_t>(used_); t < ids_.size(); ++t) {
    ids_[t] = 0;
    targets_[t] = kernels::kNoTarget;
    doc_start_[t] = static_cast<i32>(t);
  }
  transformer_.evaluate(
      ctx_, {ids_.data(), targets_.data(), doc_start_.data(), 1, static_cast<i64>(ids_.size())},
      loss_sum_);
  used_ = 0;
  start_ = 0;
}

Evaluated Evaluation::finish() {
  end_document();
  flush();
  sum_.loss = loss_sum_.row<double>(0)[0];
  if (!std::isfinite(sum_.loss))
    throw Error("the loss is {}", sum_.loss).hint("evaluate an older checkpoint of the run");
  return sum_;
}

}  // namespace lathe::train
