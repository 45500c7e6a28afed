#include "lathe/train/step.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/cpu.h"
#include "lathe/base/error.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/data/loader.h"
#include "lathe/kernels/encode.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/update.h"
#include "lathe/model/block.h"
#include "lathe/model/ctx.h"
#include "lathe/model/transformer.h"
#include "lathe/numerics/recipe.h"
#include "lathe/optim/optimizer.h"
#include "lathe/optim/schedule.h"
#include "lathe/parallel/params.h"
#include "lathe/train/config.h"
#include "lathe/train/fidelity.h"
#include "lathe/train/footprint.h"

namespace lathe::train {
namespace {

constexpr const char* kHint =
    "lower optimizer.lr, set optimizer.clip = 1.0 or a longer schedule.warmup, or look at the data "
    "of this step; the last checkpoint is as it was";

// Between them the scale of the loss moves: outside, something else is wrong.
constexpr double kSmallestLossScale = 0x1p-24, kLargestLossScale = 0x1p32;

/// A dry run reads ones, so that every check passes.
double read(const Tensor& t, i64 col = 0) { return t.data ? t.row<double>(0)[col] : 1.0; }

/// For people: the sign of a NaN says nothing, and differs from machine to machine.
double unsigned_nan(double x) {
  return std::isnan(x) ? std::numeric_limits<double>::quiet_NaN() : x;
}

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

kernels::MomentKind moments_of(const std::string& name) {
  using kernels::MomentKind;
  if (name == "bf16") return MomentKind::bf16;
  if (name == "fp8") return MomentKind::expanded;
  return name == "8bit" ? MomentKind::dynamic : MomentKind::plain;
}

optim::AdamWConfig adamw_of(const RunConfig& c) {
  const OptimizerSection& o = c.optimizer;
  return {.beta1 = o.beta1,
          .beta2 = o.beta2,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .moments = moments_of(o.moments),
          .seed = static_cast<u64>(c.run.seed)};
}

parallel::Storage storage_of(const OptimizerSection& o) {
  return {.bf16_weights = o.weights == "bf16", .bf16_gradients = o.gradients == "bf16"};
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
      recipe_(recipe_of(c_)),
      recompute_(recompute_of(c.train.recompute)),
      schedule_(schedule_of(c)),
      params_(model::param_specs(c.model), recipe_, a.weights, &a.gradients,
              storage_of(c.optimizer)),
      optimizer_(optim::adamw(adamw_of(c), params_, a.state)),
      watch_(recipe_, c.train.fidelity_every, params_, a.state),
      transformer_(c.model, params_),
      ctx_{k, recipe_, q, a.kept, a.scratch} {
  transformer_.take_state(ctx_, a.state, true);
  loss_sum_ = a.state.take("loss", DType::f64, 1, 1);
  squares_ = a.state.take("squared norms", DType::f64, 1, params_.count());
  loss_scale_ = a.state.take("loss scale", DType::f64, 1, 2);
  reset_loss_scale();
  const i64 time = model::padded_time(c.model.context, numerics::time_multiple(recipe_));
  ids_ = a.loader.take("tokens", DType::int32, c.train.micro_batch, time);
  targets_ = a.loader.take("targets", DType::int32, c.train.micro_batch, time);
  doc_start_ = a.loader.take("document starts", DType::int32, c.train.micro_batch, time);
}

void Trainer::init() {
  params_.init(static_cast<u64>(c_.run.seed));
  params_.reset_histories(q_, k_);
  reset_loss_scale();
  optimizer_->reset(q_, k_);
  watch_.reset();
  refresh(1);
}

void Trainer::reset_loss_scale() {
  if (!loss_scale_.data) return;
  loss_scale_.row<double>(0)[0] = recipe_.loss_scale.initial;
  loss_scale_.row<double>(0)[1] = 0;
}

void Trainer::refresh(i64 next) {
  params_.choose(recipe_, next, c_.train.steps);
  watch_.apply(params_);
  params_.refresh_work(q_, k_, {static_cast<u64>(c_.run.seed), static_cast<u64>(next), 0});
}

std::vector<std::pair<std::string, Tensor>> Trainer::recipe_state() {
  std::vector<std::pair<std::string, Tensor>> all = params_.histories();
  for (auto& x : watch_.state()) all.push_back(std::move(x));
  if (recipe_.loss_scale.any()) all.emplace_back("loss_scale", loss_scale_);
  return all;
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

/// The micro-batches of a step: loss, gradients, and what they show of the recipe.
Loss Trainer::learn(i64 number, i64 sequences, const data::Loader* loader,
                    const parallel::Probe* probe) {
  const i64 micro = c_.train.micro_batch, drawn = (number - 1) * c_.train.global_batch;
  Loss loss;
  const model::Batch batch{ids_.row<i32>(0), targets_.row<i32>(0), doc_start_.row<i32>(0), micro,
                           ids_.cols};
  params_.zero_grads(q_, k_);
  k_.pointwise.zero(q_, loss_sum_);
  ctx_.loss_scale = read(loss_scale_);
  ctx_.learning = true;
  ctx_.probe = probe;
  ctx_.at = {static_cast<u64>(c_.run.seed), static_cast<u64>(number), 0};
  if (probe) record_weights(q_, k_, *probe, params_, ctx_.at);
  for (i64 first = 0; first < sequences; first += micro) {
    loss.tokens += fill(loader, drawn + first, micro);
    ctx_.at.first_row = first * ids_.cols;
    transformer_.train(ctx_, batch, loss_sum_, recompute_);
  }
  ctx_.probe = nullptr;
  transformer_.finish_gradients(ctx_);
  loss.sum = read(loss_sum_);
  return loss;
}

StepResult Trainer::step(i64 number, const data::Loader* loader) {
  const Loss loss = learn(number, c_.train.global_batch, loader,
                          loader && watch_.due(number) ? watch_.begin(q_, k_) : nullptr);
  const double scale = read(loss_scale_);
  if (recipe_.loss_scale.window > 0 && overflowed(loss)) return skip(number, loss);

  StepResult result{.loss = loss, .loss_scale = scale};
  result.grad_norm = gradient_norm(number, loss);
  result.lr = schedule_.at(number);
  const double clip = c_.optimizer.clip;
  const double shrink = clip > 0 && result.grad_norm > clip ? clip / result.grad_norm : 1;
  optimizer_->update(q_, k_, params_, number, result.lr,
                     shrink / (scale * static_cast<double>(loss.tokens)));
  params_.update_histories(q_, k_, recipe_.delayed);
  if (watch_.due(number)) {
    result.fidelity = watch_.healths(params_);
    if (watch_.decides(number)) result.changes = watch_.decide(params_);
  }
  refresh(number + 1);
  grow_loss_scale();
  return result;
}

std::vector<std::vector<OperandHealth>> Trainer::scan(i64 number, i64 sequences,
                                                      const data::Loader& loader,
                                                      std::span<const numerics::Recipe> recipes) {
  const double now = read(loss_scale_);
  const auto scale_of = [&](const numerics::Recipe& r) {
    return r.name == recipe_.name ? now : r.loss_scale.initial;
  };
  std::vector<std::vector<OperandHealth>> all(recipes.size());
  for (std::size_t first = 0; first < recipes.size(); ++first) {
    if (!all[first].empty()) continue;
    // All that share a scale of the loss share a backward pass.
    const double scale = scale_of(recipes[first]);
    std::vector<numerics::Products> what;
    std::vector<std::size_t> of;
    for (std::size_t i = first; i < recipes.size(); ++i)
      if (scale_of(recipes[i]) == scale) {
        what.push_back(recipes[i].linear);
        of.push_back(i);
      }
    parallel::Probe probe{.what = what, .parameters = params_.count(), .sums = {}};
    std::vector<double> sums(static_cast<std::size_t>(probe.rows() * kernels::kFidelities));
    probe.sums = tensor(sums.data(), probe.rows(), kernels::kFidelities);
    loss_scale_.row<double>(0)[0] = scale;
    learn(number, sequences, &loader, &probe);
    for (std::size_t i = 0; i < of.size(); ++i)
      all[of[i]] = healths_of(probe, static_cast<i64>(i), params_);
  }
  loss_scale_.row<double>(0)[0] = now;
  return all;
}

/// Twice the scale when it has gone well for as long as the recipe says.
void Trainer::grow_loss_scale() {
  if (recipe_.loss_scale.window == 0 || !loss_scale_.data) return;
  double* state = loss_scale_.row<double>(0);
  if (++state[1] < static_cast<double>(recipe_.loss_scale.window)) return;
  state[0] = std::min(state[0] * 2, kLargestLossScale);
  state[1] = 0;
}

bool Trainer::overflowed(const Loss& loss) {
  if (!std::isfinite(loss.sum) || loss.tokens == 0) return false;
  take_squares(&parallel::Param::grad);
  return first_bad(squares_) >= 0 && read(loss_scale_) > kSmallestLossScale;
}

StepResult Trainer::skip(i64 number, const Loss& loss) {
  check_weights(number);
  const double scale = read(loss_scale_);
  loss_scale_.row<double>(0)[0] = scale / 2;
  loss_scale_.row<double>(0)[1] = 0;
  params_.update_histories(q_, k_, recipe_.delayed);
  refresh(number + 1);
  StepResult result{.loss = loss, .loss_scale = scale, .skipped = true};
  result.grad_norm = std::numeric_limits<double>::infinity();
  result.lr = schedule_.at(number);
  return result;
}

Loss Trainer::evaluate(const data::Loader* loader, i64 sequences) {
  const i64 micro = c_.train.micro_batch;
  Loss loss;
  k_.pointwise.zero(q_, loss_sum_);
  ctx_.learning = false;
  for (i64 first = 0; first < sequences; first += micro) {
    const i64 count = std::min(micro, sequences - first);
    loss.tokens += fill(loader, first, count);
    ctx_.at = {static_cast<u64>(c_.run.seed), 0, first * ids_.cols};
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
    return std::sqrt(sum) / (read(loss_scale_) * static_cast<double>(loss.tokens));
  }
  check_weights(step);
  if (bad < 0)
    throw Diverged(
        step, Error("step {}: the loss is {}", step, unsigned_nan(loss.sum)).hint("{}", kHint));
  Error e("step {}: the gradient of {} is not finite; the loss is {}", step, params_[bad].spec.name,
          unsigned_nan(loss.mean()));
  if (recipe_.loss_scale.initial != 1 && recipe_.loss_scale.window == 0)
    e.hint(
        "the recipe scales the loss by {} and never by less: lower loss_scale.initial, or set "
        "loss_scale.window = 2000",
        recipe_.loss_scale.initial);
  else
    e.hint("{}", kHint);
  throw Diverged(step, e);
}

void Trainer::check_weights(i64 step) {
  take_squares(&parallel::Param::master);
  const i64 bad = first_bad(squares_);
  if (bad >= 0)
    throw Diverged(step, Error("step {}: the weight {} holds values that are not finite", step,
                               params_[bad].spec.name)
                             .hint("{}", kHint));
}

}  // namespace lathe::train
