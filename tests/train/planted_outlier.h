#pragma once
// A run in which one weight is an outlier for one step, after which nothing but scales remembers.

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/data/loader.h"
#include "lathe/kernels/kernels.h"
#include "lathe/parallel/params.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"
#include "lathe/train/step.h"

namespace lathe::train {

struct Outlier {
  i64 step = 0;
  std::string layer;  // its first weight
  float value = 0;    // 0: none is planted, the rest happens all the same
};

/// Masters and the optimizer's state.
class Snapshot {
 public:
  explicit Snapshot(Trainer& t) {
    for (const parallel::Param& p : t.params().all()) add(p.master);
    for (const auto& [name, tensor] : t.optimizer().state()) add(tensor);
  }
  void restore() const {
    for (const auto& [tensor, bytes] : saved_) std::memcpy(tensor.data, bytes.data(), bytes.size());
  }

 private:
  void add(const Tensor& t) {
    const auto* bytes = static_cast<const char*>(t.data);
    saved_.emplace_back(t, std::vector<char>(bytes, bytes + t.bytes()));
  }
  std::vector<std::pair<Tensor, std::vector<char>>> saved_;
};

/// The losses of all steps. What the step of the outlier taught is forgotten. `after` sees the
/// trainer when a step is behind it.
inline std::vector<double> losses_with(
    const RunConfig& c, const Outlier& o,
    const std::function<void(i64 step, Trainer&)>& after = [](i64, Trainer&) {}) {
  Queue q(thread_count(c));
  Arenas memory = Arenas::backed(measure(c));
  const data::Loader loader(c.data.shards, data::Loader::Part::train, c.model.context,
                            c.model.known(), 1);
  Trainer t(c, kernels::select(c.run.kernels), q, memory);
  t.init();
  std::vector<double> losses;
  for (i64 n = 1; n <= c.train.steps; ++n) {
    if (n == o.step) {
      const Snapshot before(t);
      if (o.value != 0) t.params().at(o.layer).master.row<float>(0)[0] = o.value;
      t.refresh(n);
      losses.push_back(t.step(n, &loader).loss.mean());
      before.restore();
      t.refresh(n + 1);
    } else {
      losses.push_back(t.step(n, &loader).loss.mean());
    }
    after(n, t);
  }
  return losses;
}

}  // namespace lathe::train
