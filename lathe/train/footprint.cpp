#include "lathe/train/footprint.h"

#include <algorithm>
#include <string>

#include "lathe/base/arena.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
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

/// Work of one optimizer step that recomputes nothing.
Work model_work(RunConfig c) {
  c.train.recompute = "none";
  Queue q(0);
  Arenas a = Arenas::measuring();
  Trainer t(c, kernels::dry(), q, a);
  q.work = {};
  t.step(1, nullptr);
  return q.work;
}

}  // namespace

Footprint measure(const RunConfig& c) {
  Queue q(0);
  Arenas a = Arenas::measuring();
  Trainer t(c, kernels::dry(), q, a);

  Footprint f;
  q.work = {};
  t.step(1, nullptr);
  f.step = q.work;
  f.model = c.train.recompute == "none" ? f.step : model_work(c);
  t.evaluate(nullptr, std::min(c.train.micro_batch, c.train.eval_sequences));

  for (const Arena* arena : a.all())
    f.parts.push_back({arena->name(), arena->peak(), arena->peak_by_name()});
  const i64 workers = thread_count(c) * Queue::kWorkerScratch;
  f.parts.push_back({"kernels",
                     workers + Queue::kSharedScratch,
                     {{"of each worker", workers}, {"shared", Queue::kSharedScratch}}});
  f.parameters = t.params().elements();
  f.tokens_per_step = c.train.global_batch * c.model.context;
  return f;
}

}  // namespace lathe::train
