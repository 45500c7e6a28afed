#include "lathe/train/step.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "lathe/base/arena.h"
#include "lathe/base/cpu.h"
#include "lathe/base/error.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/data/loader.h"
#include "lathe/kernels/kernels.h"
#include "lathe/model/block.h"
#include "lathe/model/ctx.h"
#include "lathe/model/transformer.h"
#include "lathe/numerics/recipe.h"
#include "lathe/optim/optimizer.h"
#include "lathe/optim/schedule.h"
#include "lathe/parallel/params.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"

namespace lathe::train {
namespace {

constexpr const char* kHint =
    "lower optimizer.lr, set optimizer.clip = 1.0 or a longer schedule.warmup, or look at the data "
    "of this step; the last checkpoint is as it was";

/// A dry run reads ones, so that every check passes.
double read(const Tensor& t, i64 col = 0) { return t.data ? t.row<double>(0)[col] : 1.0; }

model::Recompute recompute_of(const std::string& name) {
  if (name == "block") return model::Recompute::block;
  return name == "attention" ? model::Recompute::attention : model::Recompute::none;
}

optim::Schedule schedule_of(const RunConfig& c) {
  return {.name = c.schedule.name,
          .peak = c.optimizer.lr,
          .min_ratio = c.schedule.min_ratio,
          .steps = c.train.steps,
          .warmup = c.schedule.warmup,
          .decay = c.schedule.decay};
}

optim::AdamWConfig adamw_of(const OptimizerSection& o) {
  return {.beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps, .weight_decay = o.weight_decay};
}

/// Index of the first square that is not finite; -1 when all are.
i64 first_bad(const Tensor& squares) {
  for (i64 i = 0; i < squares.cols; ++i)
    if (!std::isfinite(read(squares, i))) return i;
  return -1;
}

}  // namespace

Arenas Arenas::measuring() {
  return {Arena("weights"), Arena("gradients"), Arena("state"),
          Arena("kept"),    Arena("scratch"),   Arena("loader")};
}

Arenas Arenas::backed(const Footprint& f) {
  const auto arena = [&f](const char* name) { return Arena(name, f.part(name)); };
  return {arena("weights"), arena("gradients"), arena("state"),
          arena("kept"),    arena("scratch"),   arena("loader")};
}

int thread_count(const RunConfig& c) {
  return c.run.threads > 0 ? static_cast<int>(c.run.threads) : usable_cores();
}

Trainer::Trainer(const RunConfig& c, const kernels::Kernels& k, Queue& q, Arenas& a)
    : c_(c),
      k_(k),
      q_(q),
      recipe_(numerics::recipe(c.train.recipe)),
      recompute_(recompute_of(c.train.recompute)),
      schedule_(schedule_of(c)),
      params_(model::param_specs(c.model), recipe_, a.weights, &a.gradients),
      optimizer_(optim::adamw(adamw_of(c.optimizer), params_, a.state)),
      transformer_(c.model, params_),
      ctx_{k, recipe_, q, a.kept, a.scratch} {
  transformer_.take_state(ctx_, a.state, true);
  loss_sum_ = a.state.take("loss", DType::f64, 1, 1);
  squares_ = a.state.take("squared norms", DType::f64, 1, params_.count());
  const i64 time = model::padded_time(c.model.context);
  ids_ = a.loader.take("tokens", DType::int32, c.train.micro_batch, time);
  targets_ = a.loader.take("targets", DType::int32, c.train.micro_batch, time);
  doc_start_ = a.loader.take("document starts", DType::int32, c.train.micro_batch, time);
}

void Trainer::init() {
  params_.init(static_cast<u64>(c_.run.seed));
  params_.refresh_work(q_, k_);
  optimizer_->reset(q_, k_);
}

i64 Trainer::fill(const data::Loader* loader, i64 first, i64 count) {
  if (!loader) return count * c_.model.context;
  try {
    return loader->fill(first, count, ids_.cols, ids_.row<i32>(0), targets_.row<i32>(0),
                        doc_start_.row<i32>(0));
  } catch (const Error& e) {
    throw DataLost(e);
  }
}

StepResult Trainer::step(i64 number, const data::Loader* loader) {
  const i64 global = c_.train.global_batch, micro = c_.train.micro_batch;
  const i64 drawn = (number - 1) * global;
  const model::Batch batch{ids_.row<i32>(0), targets_.row<i32>(0), doc_start_.row<i32>(0), micro,
                           ids_.cols};
  Loss loss;
  params_.zero_grads(q_, k_);
  k_.pointwise.zero(q_, loss_sum_);
  for (i64 first = 0; first < global; first += micro) {
    loss.tokens += fill(loader, drawn + first, micro);
    transformer_.train(ctx_, batch, loss_sum_, recompute_);
  }
  transformer_.finish_gradients(ctx_);
  loss.sum = read(loss_sum_);

  const double norm = gradient_norm(number, loss);
  const double clip = c_.optimizer.clip;
  const double shrink = clip > 0 && norm > clip ? clip / norm : 1;
  const double lr = schedule_.at(number);
  optimizer_->update(q_, k_, params_, number, lr, shrink / static_cast<double>(loss.tokens));
  params_.refresh_work(q_, k_);
  return {loss, norm, lr};
}

Loss Trainer::evaluate(const data::Loader* loader, i64 sequences) {
  const i64 micro = c_.train.micro_batch;
  Loss loss;
  k_.pointwise.zero(q_, loss_sum_);
  for (i64 first = 0; first < sequences; first += micro) {
    const i64 count = std::min(micro, sequences - first);
    loss.tokens += fill(loader, first, count);
    transformer_.evaluate(
        ctx_, {ids_.row<i32>(0), targets_.row<i32>(0), doc_start_.row<i32>(0), count, ids_.cols},
        loss_sum_);
  }
  loss.sum = read(loss_sum_);
  return loss;
}

void Trainer::take_squares(Tensor parallel::Param::* what) {
  for (i64 i = 0; i < params_.count(); ++i)
    k_.update.sum_squares(q_, squares_.slice_cols(i, 1), params_[i].*what);
}

double Trainer::gradient_norm(i64 step, const Loss& loss) {
  if (loss.tokens == 0)
    throw Error("step {}: none of its tokens has a target, so there is nothing to learn from", step)
        .hint("look at the documents of data.shards, or raise train.global_batch");
  take_squares(&parallel::Param::grad);
  const i64 bad = first_bad(squares_);
  if (std::isfinite(loss.sum) && bad < 0) {
    double sum = 0;
    for (i64 i = 0; i < squares_.cols; ++i) sum += read(squares_, i);
    return std::sqrt(sum) / static_cast<double>(loss.tokens);
  }
  check_weights(step);
  if (bad < 0) throw Error("step {}: the loss is {}", step, loss.sum).hint("{}", kHint);
  throw Error("step {}: the gradient of {} is not finite; the loss is {}", step,
              params_[bad].spec.name, loss.mean())
      .hint("{}", kHint);
}

void Trainer::check_weights(i64 step) {
  take_squares(&parallel::Param::master);
  const i64 bad = first_bad(squares_);
  if (bad >= 0)
    throw Error("step {}: the weight {} holds values that are not finite", step,
                params_[bad].spec.name)
        .hint("{}", kHint);
}

}  // namespace lathe::train
