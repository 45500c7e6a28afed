#include <cmath>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/encode.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/update.h"
#include "lathe/optim/optimizer.h"
#include "lathe/parallel/params.h"

namespace lathe::optim {
namespace {

bool decays(parallel::Role r) {
  return r == parallel::Role::matrix || r == parallel::Role::embedding;
}

using kernels::Moment;
using kernels::MomentKind;

bool is_table(parallel::Role r) {
  return r == parallel::Role::embedding || r == parallel::Role::position;
}

/// Of `size` elements, as the kernels ask for it.
Tensor take_scales(Arena& state, MomentKind kind, i64 size) {
  constexpr const char* kWhat = "scales of moments";
  const auto groups_of = [&](i64 n) { return (size + n - 1) / n; };
  if (kind == MomentKind::dynamic)
    return state.take(kWhat, DType::f32, 1, groups_of(kernels::kMomentBlock));
  return state.take(kWhat, DType::f32, groups_of(kernels::kMomentGroup), 3);
}

Moment take_moment(Arena& state, const char* what, MomentKind kind, const parallel::Param& p) {
  const parallel::ParamSpec& s = p.spec;
  const DType plain = p.master.type == DType::f64 ? DType::f64 : DType::f32;
  if (kind == MomentKind::plain) return {kind, state.take(what, plain, s.rows, s.cols)};
  if (kind == MomentKind::bf16) return {kind, state.take(what, DType::bf16, s.rows, s.cols)};
  const Tensor codes = state.take(what, DType::uint8, s.rows, s.cols);
  return {kind, codes, take_scales(state, kind, s.size())};
}

class AdamW final : public Optimizer {
 public:
  AdamW(const AdamWConfig& c, parallel::ParamSet& p, Arena& state) : config_(c) {
    for (const parallel::Param& x : p.all()) {
      const MomentKind kind = moment_kind(c, x.spec);
      moments_.push_back({x.spec.name, take_moment(state, "first moments", kind, x),
                          take_moment(state, "second moments", kind, x)});
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
      const kernels::Draws draws{.seed = config_.seed, .stream = stream_of(x.spec.name, step)};
      k.update.adamw(q, x.master, s.first, s.second, x.grad, a, draws);
    }
  }

  std::vector<std::pair<std::string, Tensor>> state() override {
    std::vector<std::pair<std::string, Tensor>> all;
    for (const Moments& s : moments_) {
      const auto add = [&](const std::string& name, const Moment& m) {
        all.emplace_back(name, m.values);
        if (!m.scales.empty()) all.emplace_back(name + ".scales", m.scales);
      };
      add(s.name + ".m", s.first);
      add(s.name + ".v", s.second);
    }
    return all;
  }

  void reset(Queue& q, const kernels::Kernels& k) override {
    for (const auto& [name, t] : state()) k.pointwise.zero(q, t);
  }

 private:
  struct Moments {
    std::string name;
    Moment first, second;
  };
  AdamWConfig config_;
  std::vector<Moments> moments_;
};

}  // namespace

MomentKind moment_kind(const AdamWConfig& c, const parallel::ParamSpec& s) {
  const bool exact = is_table(s.role) || s.size() < kLeastDynamic;
  return c.moments == MomentKind::dynamic && exact ? MomentKind::plain : c.moments;
}

std::unique_ptr<Optimizer> adamw(const AdamWConfig& c, parallel::ParamSet& p, Arena& state) {
  return std::make_unique<AdamW>(c, p, state);
}

}  // namespace lathe::optim
