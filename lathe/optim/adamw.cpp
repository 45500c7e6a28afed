#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/update.h"
#include "lathe/optim/optimizer.h"
#include "lathe/parallel/params.h"

namespace lathe::optim {
namespace {

bool decays(parallel::Role r) {
  return r == parallel::Role::matrix || r == parallel::Role::embedding;
}

class AdamW final : public Optimizer {
 public:
  AdamW(const AdamWConfig& c, parallel::ParamSet& p, Arena& state) : config_(c) {
    for (const parallel::Param& x : p.all()) {
      const parallel::ParamSpec& s = x.spec;
      moments_.push_back({s.name, state.take("first moments", x.master.type, s.rows, s.cols),
                          state.take("second moments", x.master.type, s.rows, s.cols)});
    }
  }

  void update(Queue& q, const kernels::Kernels& k, parallel::ParamSet& p, i64 step, double lr,
              double grad_scale) override {
    kernels::AdamW a{.lr = lr,
                     .beta1 = config_.beta1,
                     .beta2 = config_.beta2,
                     .eps = config_.eps,
                     .weight_decay = 0,
                     .correction1 = 1 - std::pow(config_.beta1, static_cast<double>(step)),
                     .correction2 = 1 - std::pow(config_.beta2, static_cast<double>(step)),
                     .grad_scale = grad_scale};
    for (i64 i = 0; i < p.count(); ++i) {
      const parallel::Param& x = p[i];
      const Moments& s = moments_[static_cast<std::size_t>(i)];
      a.weight_decay = decays(x.spec.role) ? config_.weight_decay : 0;
      k.update.adamw(q, x.master, s.first, s.second, x.grad, a);
    }
  }

  std::vector<std::pair<std::string, Tensor>> state() override {
    std::vector<std::pair<std::string, Tensor>> all;
    for (const Moments& s : moments_) {
      all.emplace_back(s.name + ".m", s.first);
      all.emplace_back(s.name + ".v", s.second);
    }
    return all;
  }

  void reset(Queue& q, const kernels::Kernels& k) override {
    for (const Moments& s : moments_) {
      k.pointwise.zero(q, s.first);
      k.pointwise.zero(q, s.second);
    }
  }

 private:
  struct Moments {
    std::string name;
    Tensor first, second;
  };
  AdamWConfig config_;
  std::vector<Moments> moments_;
};

}  // namespace

std::unique_ptr<Optimizer> adamw(const AdamWConfig& c, parallel::ParamSet& p, Arena& state) {
  return std::make_unique<AdamW>(c, p, state);
}

}  // namespace lathe::optim
