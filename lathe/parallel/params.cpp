#include "lathe/parallel/params.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/error.h"
#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/encode.h"
#include "lathe/kernels/gemm.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/recipe.h"

namespace lathe::parallel {

using kernels::Along;
using numerics::Encoding;

namespace {

/// The row of the memory table that a parameter counts towards.
const char* plural(Role r) {
  switch (r) {
    case Role::matrix:
      return "matrices";
    case Role::embedding:
      return "embedding";
    case Role::position:
      return "positions";
    case Role::gain:
      return "gains";
    case Role::bias:
      return "biases";
  }
  return "other";
}

template <class T>
void fill(const Tensor& t, i64 begin, i64 end, const ParamSpec& s, u64 seed) {
  const Rng rng{seed, Draw::init, stream_of(s.name)};
  T* x = t.row<T>(0);
  for (i64 i = begin; i < end; ++i) {
    const double v = s.role == Role::gain ? 1
                     : s.init_std == 0    ? 0
                                          : s.init_std * rng.normal(static_cast<u64>(i));
    if constexpr (std::is_same_v<T, bf16>)
      x[i] = kernels::to_bf16(v);
    else
      x[i] = static_cast<T>(v);
  }
}

void fill(const Param& p, i64 begin, i64 end, u64 seed) {
  if (p.master.type == DType::f64)
    fill<double>(p.master, begin, end, p.spec, seed);
  else if (p.master.type == DType::bf16)
    fill<bf16>(p.master, begin, end, p.spec, seed);
  else
    fill<float>(p.master, begin, end, p.spec, seed);
}

/// Whether one copy is right for both orientations: its values, and its scales, of which those of a
/// part of the sum belong to one orientation.
bool serves_both(const Encoding& e) {
  return numerics::same_both_ways(e) && numerics::scale_shape(e, 1, 1).depth == 0;
}

/// Whether products read the master itself.
bool reads_master(const Encoding& e, DType master) {
  return numerics::is_plain(e) && numerics::info(e.format).storage == master;
}

/// What holds (rows, cols) in any of the encodings, vectors running along `along`.
Param::Copy take_copy(const std::vector<Encoding>& all, const ParamSpec& s, DType master,
                      Along along, Arena& weights) {
  const bool by_rows = along == Along::cols;
  i64 bytes = 0, scales = 0;
  for (const Encoding& e : all) {
    if (reads_master(e, master)) continue;
    bytes = std::max(bytes, s.size() * size_of(numerics::info(e.format).storage));
    const numerics::ScaleShape shape =
        numerics::scale_shape(e, by_rows ? s.rows : s.cols, by_rows ? s.cols : s.rows);
    scales = std::max(scales, shape.rows * shape.cols);
  }
  Param::Copy c;
  if (bytes > 0) c.codes = weights.take("copies for products", DType::bf16, 1, bytes / 2);
  if (scales > 0) c.scales = weights.take("scales of copies", DType::f32, 1, scales);
  return c;
}

void take_copies(Param& p, const numerics::Recipe& recipe, Arena& weights) {
  std::vector<Encoding> forward, back;
  bool delayed = false;
  for (const numerics::Products& x : numerics::all_products_of(recipe, p.place)) {
    forward.push_back(x.forward.b);
    if (served_by(x, Slot::grad_x_w) == Slot::grad_x_w) back.push_back(x.grad_x.b);
    for (i64 s = 0; s < kSlots; ++s)
      delayed |= encoding(x, static_cast<Slot>(s)).scaling == numerics::Scaling::delayed;
  }
  p.forward_copy = take_copy(forward, p.spec, p.master.type, Along::cols, weights);
  p.back_copy = take_copy(back, p.spec, p.master.type, Along::rows, weights);
  if (delayed)
    p.history = weights.take("amax histories", DType::f32, kSlots, 1 + i64{recipe.delayed.history});
}

/// A parameter as a product reads it in the encoding e.
kernels::Operand operand(const Param& p, const Encoding& e, const Param::Copy& copy, Along along) {
  if (reads_master(e, p.master.type)) return {.data = p.master, .format = e.format, .along = along};
  const bool by_rows = along == Along::cols;
  const numerics::ScaleShape s = numerics::scale_shape(e, by_rows ? p.spec.rows : p.spec.cols,
                                                       by_rows ? p.spec.cols : p.spec.rows);
  const Tensor codes{copy.codes.data, numerics::info(e.format).storage, p.spec.rows, p.spec.cols,
                     p.spec.cols};
  ConstTensor scales;
  if (s.rows > 0) scales = Tensor{copy.scales.data, DType::f32, s.rows, s.cols, s.cols};
  return {.data = codes,
          .format = e.format,
          .along = along,
          .scales = scales,
          .scale_outer = s.outer,
          .scale_depth = s.depth};
}

void refresh(Queue& q, const kernels::Kernels& k, const Param& p, const kernels::Operand& to,
             const Param::Copy& copy, Slot slot, const kernels::Draws& at) {
  const Encoding& e = encoding(p.products, slot);
  if (reads_master(e, p.master.type)) return;
  const Tensor codes{copy.codes.data, to.data.type, to.data.rows, to.data.cols, to.data.stride};
  if (numerics::is_plain(e)) return k.pointwise.convert(q, codes, p.master);
  const Tensor scales{copy.scales.data, DType::f32, to.scales.rows, to.scales.cols, to.scales.cols};
  const Tensor history = e.scaling == numerics::Scaling::delayed
                             ? p.history.slice_rows(static_cast<i64>(slot), 1)
                             : Tensor{};
  k.encode.encode(q, codes, scales, p.master, e, to.along, p.draws(slot, at), history);
}

/// Spreads the bits of x over all 64 (splitmix64's finaliser).
u64 mixed(u64 x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

}  // namespace

const Encoding& encoding(const numerics::Products& p, Slot s) {
  switch (s) {
    case Slot::forward_x:
      return p.forward.a;
    case Slot::forward_w:
      return p.forward.b;
    case Slot::grad_x_dy:
      return p.grad_x.a;
    case Slot::grad_x_w:
      return p.grad_x.b;
    case Slot::grad_w_dy:
      return p.grad_w.a;
    default:
      return p.grad_w.b;
  }
}

Slot served_by(const numerics::Products& p, Slot s) {
  if (s == Slot::grad_x_w && p.grad_x.b == p.forward.b && serves_both(p.forward.b))
    return Slot::forward_w;
  if (s == Slot::grad_w_dy && p.grad_w.a == p.grad_x.a && serves_both(p.grad_x.a))
    return Slot::grad_x_dy;
  return s;
}

kernels::Draws Param::draws(Slot s, const kernels::Draws& at) const {
  return {at.seed, mixed(stream_of(spec.name) + static_cast<u64>(s)) + at.stream, at.first_row};
}

void record(Queue& q, const kernels::Kernels& k, const Probe& probe, const Param& p, Slot s,
            const ConstTensor& x, const kernels::Draws& at) {
  for (i64 which = 0; which < probe.kinds(); ++which) {
    const numerics::Products& products =
        probe.what.empty() ? p.products : probe.what[static_cast<std::size_t>(which)];
    Encoding e = encoding(products, s);
    Tensor history;
    if (e.scaling == numerics::Scaling::delayed) {
      // What was never scaled by its past has none: the present stands in.
      if (p.history.empty())
        e.scaling = numerics::Scaling::current;
      else
        history = p.history.slice_rows(static_cast<i64>(served_by(p.products, s)), 1);
    }
    k.encode.fidelity(q, probe.row(which, p.index, s), x, e, along(s), p.draws(s, at), history);
  }
}

ParamSet::ParamSet(const std::vector<ParamSpec>& specs, const numerics::Recipe& recipe,
                   Arena& weights, Arena* grads, const Storage& storage) {
  i64 blocks = 0;
  for (const ParamSpec& s : specs) blocks = std::max(blocks, s.block + 1);
  for (const ParamSpec& s : specs) {
    const char* what = plural(s.role);
    Param p;
    p.index = count();
    p.place = s.place(blocks);
    p.spec = s;
    const bool table = s.role == Role::matrix || s.role == Role::embedding;
    p.master = weights.take(what, table && storage.bf16_weights ? DType::bf16 : recipe.master,
                            s.rows, s.cols);
    const DType gradient = p.multiplied() && storage.bf16_gradients ? DType::bf16 : recipe.master;
    if (grads) p.grad = grads->take(what, gradient, s.rows, s.cols);
    if (p.multiplied()) take_copies(p, recipe, weights);
    params_.push_back(std::move(p));
  }
  choose(recipe, 1, 1);
}

Param& ParamSet::at(std::string_view name) {
  const auto p = std::find_if(params_.begin(), params_.end(),
                              [&](const Param& x) { return x.spec.name == name; });
  CHECK(p != params_.end(), "no parameter is called {}", name);
  return *p;
}

const Param* ParamSet::find(std::string_view name) const {
  for (const Param& p : params_)
    if (p.spec.name == name) return &p;
  return nullptr;
}

i64 ParamSet::elements() const {
  i64 n = 0;
  for (const Param& p : params_) n += p.spec.size();
  return n;
}

void ParamSet::init(u64 seed) {
  constexpr i64 kPiece = i64{1} << 20;  // small models are not worth a thread
  for (const Param& p : params_) {
    if (!p.master.data) continue;
    const i64 n = p.spec.size();
    const i64 most = std::max<i64>(1, std::thread::hardware_concurrency());
    const i64 parts = std::clamp<i64>(n / kPiece, 1, most);
    std::vector<std::jthread> threads;
    for (i64 i = 1; i < parts; ++i)
      threads.emplace_back(
          [&p, n, i, parts, seed] { fill(p, n * i / parts, n * (i + 1) / parts, seed); });
    fill(p, 0, n / parts, seed);
  }
}

void ParamSet::choose(const numerics::Recipe& r, i64 step, i64 steps) {
  for (const Param& p : params_)
    if (p.multiplied()) choose(p.index, numerics::products_of(r, p.place, step, steps));
}

bool ParamSet::choose_alternative(const numerics::Recipe& r, i64 n) {
  bool any = false;
  for (const Param& p : params_) {
    if (!p.multiplied()) continue;
    const std::vector<numerics::Products> all = numerics::all_products_of(r, p.place);
    any |= n < static_cast<i64>(all.size());
    choose(p.index, all[std::min(static_cast<std::size_t>(n), all.size() - 1)]);
  }
  return any;
}

void ParamSet::choose(i64 index, const numerics::Products& products) {
  Param& p = (*this)[index];
  p.products = products;
  p.work = operand(p, products.forward.b, p.forward_copy, Along::cols);
  if (served_by(products, Slot::grad_x_w) == Slot::grad_x_w) {
    p.work_back = operand(p, products.grad_x.b, p.back_copy, Along::rows);
  } else {
    p.work_back = p.work;
    p.work_back.along = Along::rows;
  }
}

void ParamSet::refresh_work(Queue& q, const kernels::Kernels& k, const kernels::Draws& at) {
  for (const Param& p : params_) {
    if (!p.multiplied()) continue;
    refresh(q, k, p, p.work, p.forward_copy, Slot::forward_w, at);
    if (served_by(p.products, Slot::grad_x_w) == Slot::grad_x_w)
      refresh(q, k, p, p.work_back, p.back_copy, Slot::grad_x_w, at);
  }
}

std::vector<std::pair<std::string, Tensor>> ParamSet::histories() const {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const Param& p : params_)
    if (!p.history.empty()) all.emplace_back(p.spec.name + ".history", p.history);
  return all;
}

void ParamSet::reset_histories(Queue& q, const kernels::Kernels& k) {
  for (const Param& p : params_) {
    if (p.history.empty()) continue;
    k.pointwise.zero(q, p.history);
    for (i64 s = 0; s < kSlots; ++s)
      if (p.history.data) p.history.row<float>(s)[kernels::kHistoryScale] = 1;
  }
}

void ParamSet::update_histories(Queue& q, const kernels::Kernels& k,
                                const numerics::DelayedOptions& o) {
  for (const Param& p : params_) {
    if (p.history.empty()) continue;
    for (i64 s = 0; s < kSlots; ++s) {
      const Encoding& e = encoding(p.products, static_cast<Slot>(s));
      if (e.scaling == numerics::Scaling::delayed)
        k.encode.update_history(q, p.history.slice_rows(s, 1), e.format, o.margin, o.most_recent);
    }
  }
}

void ParamSet::zero_grads(Queue& q, const kernels::Kernels& k) {
  for (const Param& p : params_)
    if (!p.grad.empty()) k.pointwise.zero(q, p.grad);
}

}  // namespace lathe::parallel
