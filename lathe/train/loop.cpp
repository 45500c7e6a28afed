#include "lathe/train/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lathe/base/error.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/data/loader.h"
#include "lathe/data/tokenizer.h"
#include "lathe/kernels/kernels.h"
#include "lathe/model/decode.h"
#include "lathe/numerics/recipe_text.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/config.h"
#include "lathe/train/events.h"
#include "lathe/train/fidelity.h"
#include "lathe/train/footprint.h"
#include "lathe/train/peak.h"
#include "lathe/train/progress.h"
#include "lathe/train/run_folder.h"
#include "lathe/train/runlog.h"
#include "lathe/train/sampling.h"
#include "lathe/train/step.h"
#include "lathe/train/stop.h"

namespace lathe::train {
namespace {

using Clock = std::chrono::steady_clock;

/// Every `every` steps and at the last; 0: only then.
bool due(i64 every, i64 step, i64 last) { return step == last || (every > 0 && step % every == 0); }

/// The held-out part, if it holds a whole sequence.
std::unique_ptr<data::Loader> held_out_loader(const RunConfig& c, const data::ShardsInfo& shards) {
  if (shards.held_out_tokens <= c.model.context) return nullptr;
  auto loader =
      std::make_unique<data::Loader>(c.data.shards, data::Loader::Part::held_out, c.model.context,
                                     c.model.known(), static_cast<u64>(c.run.seed));
  return loader->sequences() > 0 ? std::move(loader) : nullptr;
}

/// Where a run's weights and state come from.
CheckpointInfo restore(const RunConfig& c, const std::string& folder, Trainer& trainer,
                       const data::ShardsInfo& shards) {
  const Checkpoint checkpoint(folder);
  const CheckpointInfo& info = checkpoint.info();
  checkpoint.check_storage(c.optimizer.moments, c.optimizer.weights);
  if (info.results_hash != results_hash(c)) throw other_run(folder + "/config.toml", c);
  if (info.tokenizer_hash != shards.tokenizer_hash)
    throw Error("the checkpoint was trained on other shards: its tokenizer is not theirs")
        .at(c.data.shards)
        .hint("use another folder: --set run.folder=…");
  // A checkpoint from before this was kept does not name its tokens.
  if (!info.tokens_hash.empty() && info.tokens_hash != shards.tokens_hash)
    throw Error("the tokens are not those that the checkpoint was trained on")
        .at(c.data.shards)
        .hint("make the shards again from the text they had, or begin a run: --set run.folder=…");
  checkpoint.read_weights(trainer.params());
  checkpoint.read_state(trainer.optimizer());
  checkpoint.read_recipe_state(trainer.recipe_state());
  trainer.refresh(info.step + 1);
  return info;
}

/// A run between its steps.
class Run {
 public:
  Run(const RunConfig& c, const Footprint& need, const LoopOptions& o);

  Outcome go();

 private:
  CheckpointInfo facts() const;
  void begin();
  bool take_steps();
  void step(i64 number);
  StepResult learn(i64 number, double& seconds);
  LogRecord record_of(i64 number, const StepResult& s, double seconds) const;
  void note_precision(i64 number, const StepResult& s);
  double held_out_loss(i64 step);
  void sample(LogRecord& r);
  void write(const LogRecord& r);
  void write_checkpoint();
  void save();
  void save_or_go_on();
  void save_before_leaving();

  const RunConfig& c_;
  const Footprint& need_;
  const LoopOptions& options_;
  RunFolder folder_;
  StopSignal signal_;
  const kernels::Kernels& k_;
  Queue q_;
  Arenas memory_;
  Trainer trainer_;
  data::ShardsInfo shards_;
  data::Loader training_;
  std::unique_ptr<data::Loader> held_out_;
  std::optional<data::Tokenizer> tokenizer_;

  double peak_ = 0;
  CheckpointInfo at_;       // after the last step that was done
  bool whole_ = true;       // the weights are those after that step
  std::string checkpoint_;  // the newest
  i64 saved_ = 0;           // its step
  std::optional<RunLog> log_, fidelity_;
  std::optional<EventFile> events_;
  std::optional<Progress> progress_;
};

Run::Run(const RunConfig& c, const Footprint& need, const LoopOptions& o)
    : c_(c),
      need_(need),
      options_(o),
      folder_(c),
      k_(kernels::select(c.run.kernels)),
      q_(thread_count(c)),
      memory_(Arenas::backed(need)),
      trainer_(c, k_, q_, memory_),
      shards_(data::read_shards_info(c.data.shards)),
      training_(c.data.shards, data::Loader::Part::train, c.model.context, c.model.known(),
                static_cast<u64>(c.run.seed)),
      held_out_(held_out_loader(c, shards_)) {
  if (c.train.sample_tokens > 0) tokenizer_ = data::Tokenizer::load(shards_.tokenizer_path);
  at_ = facts();
}

/// Of a run that has taken no step.
CheckpointInfo Run::facts() const {
  CheckpointInfo i;
  i.steps = c_.train.steps;
  i.seed = c_.run.seed;
  i.recipe = recipe_of(c_).name;
  i.results_hash = results_hash(c_);
  i.tokenizer_hash = shards_.tokenizer_hash;
  i.tokens_hash = shards_.tokens_hash;
  i.moments = c_.optimizer.moments;
  i.weights = c_.optimizer.weights;
  i.model = c_.model;
  return i;
}

void Run::begin() {
  remove_unfinished_checkpoints(folder_.path());
  checkpoint_ =
      find_checkpoint(folder_.path(), options_.use_previous ? Pick::previous : Pick::latest);
  if (checkpoint_.empty()) {
    trainer_.init();
  } else {
    const CheckpointInfo there = restore(c_, checkpoint_, trainer_, shards_);
    at_.step = there.step;
    at_.sequences = there.sequences;
    at_.tokens = there.tokens;
    at_.seconds = there.seconds;
    go_on_from(folder_.path(), checkpoint_, c_.train.keep_checkpoints);
  }
  saved_ = at_.step;
  folder_.write_settings(c_);
  if (at_.step >= c_.train.steps) return;

  peak_ = measure_peak(k_, recipe_of(c_), q_);
  log_.emplace(folder_.file("log.jsonl"), at_.step);
  events_.emplace(folder_.path(), at_.step);
  write_run_json(folder_.file(kRunJson), {.config = c_,
                                          .footprint = need_,
                                          .kernels = kernels::describe(k_),
                                          .threads = q_.threads(),
                                          .peak = peak_,
                                          .first_step = at_.step + 1});
  progress_.emplace(options_.people, at_.step + 1, c_.train.steps, need_.total());
  progress_->say(fmt::format("kernels {}, {} threads, a peak of {:.0f} GFLOP/s measured now",
                             kernels::describe(k_), q_.threads(), peak_ / 1e9));
  progress_->say(fmt::format("{} sequences of training text, {} held out", training_.sequences(),
                             held_out_ ? held_out_->sequences() : 0));
  if (!checkpoint_.empty())
    progress_->say(fmt::format("going on from {} at sequence {}", checkpoint_, at_.sequences));
}

Outcome Run::go() {
  begin();
  if (at_.step >= c_.train.steps)
    return {Outcome::How::was_finished, at_.step, checkpoint_, signal_.received() != 0};
  const bool stopped = take_steps();
  save();
  if (stopped)
    progress_->say(fmt::format("stopped after step {} of {}; saved {}; the same command goes on",
                               at_.step, c_.train.steps, checkpoint_));
  else
    progress_->say(fmt::format("finished: {} steps, {}", at_.step, checkpoint_));
  return {stopped ? Outcome::How::stopped : Outcome::How::finished, at_.step, checkpoint_,
          signal_.received() != 0};
}

/// Until the last step, or a signal: true.
bool Run::take_steps() {
  try {
    for (i64 n = at_.step + 1; n <= c_.train.steps; ++n) {
      step(n);
      if (n == c_.train.steps) break;
      if (signal_.received()) return true;
      if (due(c_.train.checkpoint_every, n, c_.train.steps)) save_or_go_on();
    }
  } catch (const Diverged&) {
    throw;
  } catch (...) {
    save_before_leaving();
    throw;
  }
  return false;
}

/// A step with all that belongs to it. Whatever fails once it is taken, its line is in the log: the
/// checkpoint that is then written holds it.
void Run::step(i64 number) {
  double seconds = 0;
  const StepResult s = learn(number, seconds);
  LogRecord r = record_of(number, s, seconds);
  try {
    note_precision(number, s);
    if (due(c_.train.eval_every, number, c_.train.steps)) {
      if (held_out_) r.held_out_loss = held_out_loss(number);
      sample(r);
    }
  } catch (const Diverged&) {
    throw;
  } catch (...) {
    write(r);
    throw;
  }
  write(r);
}

StepResult Run::learn(i64 number, double& seconds) {
  const Clock::time_point start = Clock::now();
  whole_ = false;
  StepResult s;
  try {
    s = trainer_.step(number, &training_);
  } catch (const Error&) {
    whole_ = true;  // it has changed nothing then
    throw;
  }
  whole_ = true;
  seconds = std::chrono::duration<double>(Clock::now() - start).count();
  at_.step = number;
  at_.sequences = number * c_.train.global_batch;
  at_.tokens += s.loss.tokens;
  at_.seconds += seconds;
  return s;
}

LogRecord Run::record_of(i64 number, const StepResult& s, double seconds) const {
  const double flops = need_.model.product_flops + need_.model.attention_flops;
  return {.step = number,
          .loss = s.loss.mean(),
          .grad_norm = s.grad_norm,
          .lr = s.lr,
          .tokens = at_.tokens,
          .seconds = seconds,
          .tokens_per_second = static_cast<double>(s.loss.tokens) / seconds,
          .mfu = flops / seconds / peak_,
          .rss = resident_bytes(),
          .loss_scale = s.loss_scale != 1 ? std::optional(s.loss_scale) : std::nullopt,
          .skipped = s.skipped,
          .changes = s.changes,
          .held_out_loss = std::nullopt,
          .sample = std::nullopt};
}

/// What the step showed of its recipe, and what the recipe made of it.
void Run::note_precision(i64 number, const StepResult& s) {
  if (s.skipped)
    progress_->say(
        fmt::format("step {}: a gradient overflowed; no weight has changed, and the loss "
                    "is scaled by {} from now on",
                    number, s.loss_scale / 2));
  if (!s.fidelity.empty() && !fidelity_)
    fidelity_.emplace(folder_.file("fidelity.jsonl"), number - 1);
  for (const OperandHealth& h : s.fidelity) fidelity_->add(to_json(number, h));
  if (!s.changes.empty()) {
    const LevelChange& c = s.changes.front();
    progress_->say(fmt::format("step {}: {} products change precision, {} {} from {} to {} first",
                               number, s.changes.size(), c.layer, c.product, c.from, c.to));
  }
}

double Run::held_out_loss(i64 step) {
  const i64 sequences = std::min(c_.train.eval_sequences, held_out_->sequences());
  const Loss loss = trainer_.evaluate(held_out_.get(), sequences);
  if (loss.tokens == 0 || !std::isfinite(loss.sum)) {
    const Error e =
        Error("step {}: the held-out loss is {}, over {} tokens", step, loss.sum, loss.tokens)
            .hint(
                "lower optimizer.lr or look at the held-out text; the last checkpoint is as it "
                "was");
    if (loss.tokens == 0) throw e;
    throw Diverged(step, e);
  }
  return loss.mean();
}

/// A text is for people to read: one that cannot be made is told once, and the run goes on.
void Run::sample(LogRecord& r) {
  if (!tokenizer_) return;
  try {
    model::Decoder decoder = trainer_.decoder();
    r.sample = continue_prompt(c_, decoder, *tokenizer_);
  } catch (const std::exception& e) {
    progress_->say(fmt::format("warning: no sample can be made, here or later: {}", e.what()));
    tokenizer_.reset();
  }
}

void Run::write(const LogRecord& r) {
  if (!log_->add(r)) progress_->say("warning: the log cannot be written now; its lines are kept");
  events_->add(r.step, {{"train/loss", r.loss},
                        {"train/grad_norm", r.grad_norm},
                        {"train/lr", r.lr},
                        {"speed/tokens_per_second", r.tokens_per_second},
                        {"speed/mfu", r.mfu},
                        {"memory/rss", static_cast<double>(r.rss)}});
  if (r.held_out_loss) events_->add(r.step, {{"held_out/loss", *r.held_out_loss}});
  if (r.sample) events_->add_text(r.step, "sample", *r.sample);
  if (options_.records) {
    // As for people, nobody may be listening any more.
    const std::string line = to_json(r) + "\n";
    std::fwrite(line.data(), 1, line.size(), options_.records);
    std::fflush(options_.records);
  }
  progress_->step(r);
}

void Run::write_checkpoint() {
  // The log must not lack a step that a checkpoint claims.
  if (const bool kept = log_->sync(); (fidelity_ && !fidelity_->sync()) || !kept)
    progress_->say("warning: the log cannot be made durable now");
  checkpoint_ = save_checkpoint(folder_.path(),
                                {.info = at_,
                                 .params = trainer_.params(),
                                 .state = trainer_.optimizer().state(),
                                 .recipe_state = trainer_.recipe_state(),
                                 .config_toml = to_toml(c_),
                                 .recipe_toml = numerics::to_toml(recipe_of(c_)),
                                 .tokenizer_path = shards_.tokenizer_path},
                                c_.train.keep_checkpoints);
  saved_ = at_.step;
}

void Run::save() {
  trainer_.check_weights(at_.step);
  write_checkpoint();
}

void Run::save_or_go_on() {
  trainer_.check_weights(at_.step);
  try {
    write_checkpoint();
  } catch (const Error& e) {
    progress_->say(fmt::format(
        "warning: NO CHECKPOINT was written at step {}; training goes on and "
        "tries again at the next one{}\n{}",
        at_.step, saved_ > 0 ? fmt::format(" (step {}'s is kept)", saved_) : "", e.report()));
  }
}

void Run::save_before_leaving() {
  if (!whole_ || at_.step == saved_) return;
  try {
    save();
    progress_->say(fmt::format("the run cannot go on; saved {}", checkpoint_));
  } catch (const Error& e) {
    progress_->say("warning: no checkpoint could be written\n" + e.report());
  } catch (const std::exception& e) {
    progress_->say(fmt::format("warning: no checkpoint could be written: {}", e.what()));
  }
}

}  // namespace

Outcome train(const RunConfig& c, const Footprint& need, const LoopOptions& o) {
  return Run(c, need, o).go();
}

}  // namespace lathe::train
