#include "lathe/train/fidelity.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/encode.h"
#include "lathe/kernels/kernels.h"
#include "lathe/numerics/policy.h"
#include "lathe/numerics/recipe.h"
#include "lathe/parallel/params.h"

namespace lathe::train {

using numerics::Choice;
using numerics::Health;
using parallel::Param;
using parallel::Slot;

namespace {

constexpr i64 kProducts = 3;
constexpr std::array kProductNames{"forward", "grad_x", "grad_w"};

/// Both operands of a product.
std::array<Slot, 2> slots_of(i64 product) {
  return {static_cast<Slot>(2 * product), static_cast<Slot>(2 * product + 1)};
}

numerics::Product& product_of(numerics::Products& p, i64 product) {
  return product == 0 ? p.forward : product == 1 ? p.grad_x : p.grad_w;
}

}  // namespace

const char* name_of(Slot s) {
  constexpr std::array kNames{"forward.x", "forward.w", "grad_x.dy",
                              "grad_x.w",  "grad_w.dy", "grad_w.x"};
  return kNames[static_cast<std::size_t>(s)];
}

Health health_of(const ConstTensor& sums) {
  const double* s = sums.row<double>(0);
  const double elements = s[kernels::kElements], nonzero = s[kernels::kNonzero];
  Health h;
  // A tensor of zeros is encoded exactly.
  h.snr_db = s[kernels::kNoise] == 0 ? std::numeric_limits<double>::infinity()
                                     : 10 * std::log10(s[kernels::kSignal] / s[kernels::kNoise]);
  h.underflow = nonzero > 0 ? s[kernels::kUnderflow] / nonzero : 0;
  h.saturated = elements > 0 ? s[kernels::kSaturated] / elements : 0;
  h.amax = s[kernels::kLargest];
  return h;
}

void record_weights(Queue& q, const kernels::Kernels& k, const parallel::Probe& probe,
                    const parallel::ParamSet& p, const kernels::Draws& at) {
  for (const Param& x : p.all()) {
    if (!x.multiplied()) continue;
    parallel::record(q, k, probe, x, Slot::forward_w, x.master, at);
    parallel::record(q, k, probe, x, Slot::grad_x_w, x.master, at);
  }
}

std::vector<OperandHealth> healths_of(const parallel::Probe& probe, i64 which,
                                      const parallel::ParamSet& p) {
  std::vector<OperandHealth> all;
  for (const Param& x : p.all()) {
    if (!x.multiplied()) continue;
    for (i64 s = 0; s < parallel::kSlots; ++s) {
      const auto slot = static_cast<Slot>(s);
      all.push_back({x.spec.name, name_of(slot), {}, health_of(probe.row(which, x.index, slot))});
    }
  }
  return all;
}

FidelityWatch::FidelityWatch(const numerics::Recipe& recipe, i64 every, const parallel::ParamSet& p,
                             Arena& state)
    : recipe_(recipe), every_(every) {
  for (const numerics::Adaptive::Level& l : recipe.adaptive.levels) levels_.push_back(l.products);
  probe_.what = levels_;
  probe_.parameters = p.count();
  if (adaptive()) choices_ = state.take("choices", DType::int32, kProducts * p.count(), 3);
  if (every > 0 || adaptive())
    probe_.sums = state.take("fidelity", DType::f64, probe_.rows(), kernels::kFidelities);
}

Choice FidelityWatch::choice(i64 parameter, i64 product) const {
  const i32* c = choices_.row<i32>(parameter * kProducts + product);
  return {c[0], c[1], c[2]};
}

void FidelityWatch::set_choice(i64 parameter, i64 product, const Choice& c) {
  i32* to = choices_.row<i32>(parameter * kProducts + product);
  to[0] = static_cast<i32>(c.level);
  to[1] = static_cast<i32>(c.asked);
  to[2] = static_cast<i32>(c.lowest);
}

void FidelityWatch::reset() {
  if (!choices_.data) return;
  const Choice top{.level = static_cast<i64>(levels_.size()) - 1};
  for (i64 i = 0; i < probe_.parameters; ++i)
    for (i64 product = 0; product < kProducts; ++product) set_choice(i, product, top);
}

const parallel::Probe* FidelityWatch::begin(Queue& q, const kernels::Kernels& k) {
  k.pointwise.zero(q, probe_.sums);
  return &probe_;
}

std::vector<OperandHealth> FidelityWatch::healths(const parallel::ParamSet& p) const {
  std::vector<OperandHealth> all;
  if (!probe_.sums.data) return all;
  if (!adaptive()) return healths_of(probe_, 0, p);
  for (const Param& x : p.all()) {
    if (!x.multiplied() || !numerics::adapts(recipe_, x.place)) continue;
    for (i64 s = 0; s < parallel::kSlots; ++s) {
      const i64 level = choice(x.index, s / 2).level;
      const auto slot = static_cast<Slot>(s);
      all.push_back({x.spec.name, name_of(slot),
                     recipe_.adaptive.levels[static_cast<std::size_t>(level)].name,
                     health_of(probe_.row(level, x.index, slot))});
    }
  }
  return all;
}

std::vector<LevelChange> FidelityWatch::decide(const parallel::ParamSet& p) {
  std::vector<LevelChange> changes;
  if (!choices_.data) return changes;
  const auto name = [&](i64 level) {
    return recipe_.adaptive.levels[static_cast<std::size_t>(level)].name;
  };
  for (const Param& x : p.all()) {
    if (!x.multiplied() || !numerics::adapts(recipe_, x.place)) continue;
    for (i64 product = 0; product < kProducts; ++product) {
      std::vector<Health> healths;
      for (i64 level = 0; level < probe_.kinds(); ++level)
        for (const Slot s : slots_of(product))
          healths.push_back(health_of(probe_.row(level, x.index, s)));
      const Choice now = choice(x.index, product);
      const Choice next = numerics::next_choice(now, healths, recipe_.adaptive);
      set_choice(x.index, product, next);
      if (next.level != now.level)
        changes.push_back({x.spec.name, kProductNames[static_cast<std::size_t>(product)],
                           name(now.level), name(next.level)});
    }
  }
  return changes;
}

void FidelityWatch::apply(parallel::ParamSet& p) const {
  if (!choices_.data) return;
  for (const Param& x : p.all()) {
    if (!x.multiplied() || !numerics::adapts(recipe_, x.place)) continue;
    numerics::Products products = x.products;
    for (i64 product = 0; product < kProducts; ++product) {
      numerics::Products level = levels_[static_cast<std::size_t>(choice(x.index, product).level)];
      product_of(products, product) = product_of(level, product);
    }
    p.choose(x.index, products);
  }
}

std::vector<std::pair<std::string, Tensor>> FidelityWatch::state() const {
  if (choices_.empty()) return {};
  return {{"adaptive.choices", choices_}};
}

}  // namespace lathe::train
