#include "lathe/train/footprint.h"

#include <algorithm>
#include <string>

#include "lathe/base/arena.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/attention.h"
#include "lathe/kernels/kernels.h"
#include "lathe/model/ctx.h"
#include "lathe/model/transformer.h"
#include "lathe/numerics/recipe.h"
#include "lathe/parallel/params.h"
#include "lathe/train/config.h"
#include "lathe/train/step.h"

namespace lathe::train {

i64 Footprint::total() const {
  i64 sum = 0;
  for (const Part& p : parts) sum += p.bytes;
  return sum;
}

i64 Footprint::part(const std::string& name) const {
  const auto p =
      std::find_if(parts.begin(), parts.end(), [&](const Part& x) { return x.name == name; });
  return p == parts.end() ? 0 : p->bytes;
}

namespace {

/// a + n b.
Work sum(const Work& a, double n, const Work& b) {
  return {a.product_flops + n * b.product_flops, a.attention_flops + n * b.attention_flops,
          a.other_flops + n * b.other_flops, a.bytes + n * b.bytes};
}

/// Work of one optimizer step on `count` micro-batches; its memory stays in `a`.
Work step_work(RunConfig c, i64 count, Arenas& a) {
  c.train.global_batch = count * c.train.micro_batch;
  Queue q(0);
  Trainer t(c, kernels::dry(), q, a);
  q.work = {};
  t.step(1, nullptr);
  const Work work = q.work;
  if (c.train.sample_tokens > 0) t.decoder().next(0);
  // A recipe may change on the way: room for all that it may become.
  const numerics::Recipe& recipe = recipe_of(c);
  for (i64 n = 0; t.params().choose_alternative(recipe, n); ++n) {
    t.evaluate(nullptr, std::min(c.train.micro_batch, c.train.eval_sequences));
    t.step(1, nullptr);
  }
  return work;
}

/// The same without walking through each micro-batch: all do the same work in the same memory.
Work step_work(const RunConfig& c, Arenas& a) {
  const i64 count = c.train.global_batch / c.train.micro_batch;
  const Work one = step_work(c, 1, a);
  if (count == 1) return one;
  Arenas again = Arenas::measuring();
  return sum(one, static_cast<double>(count - 1), sum(step_work(c, 2, again), -1, one));
}

/// Of the work of a step, what belongs to tokens of the text: sequences are filled up with others.
Work of_the_text(const RunConfig& c, Work w) {
  const i64 context = c.model.context;
  const i64 padded = model::padded_time(context, numerics::time_multiple(recipe_of(c)));
  const double tokens = static_cast<double>(context) / static_cast<double>(padded);
  w.product_flops *= tokens;
  w.other_flops *= tokens;
  w.attention_flops *= static_cast<double>(kernels::visible_pairs(context, c.model.window)) /
                       static_cast<double>(kernels::visible_pairs(padded, c.model.window));
  return w;
}

/// Work of one optimizer step that recomputes nothing.
Work model_work(RunConfig c) {
  c.train.recompute = "none";
  Arenas a = Arenas::measuring();
  return step_work(c, a);
}

}  // namespace

Footprint measure(const RunConfig& c) {
  Arenas a = Arenas::measuring();
  Footprint f;
  f.step = step_work(c, a);
  f.model = of_the_text(c, c.train.recompute == "none" ? f.step : model_work(c));

  for (const Arena* arena : a.all())
    f.parts.push_back({arena->name(), arena->peak(), arena->peak_by_name()});
  const i64 workers = thread_count(c) * Queue::kWorkerScratch;
  f.parts.push_back({"kernels",
                     workers + Queue::kSharedScratch,
                     {{"of each worker", workers}, {"shared", Queue::kSharedScratch}}});
  for (const parallel::ParamSpec& s : model::param_specs(c.model)) f.parameters += s.size();
  f.tokens_per_step = c.train.global_batch * c.model.context;
  return f;
}

}  // namespace lathe::train
