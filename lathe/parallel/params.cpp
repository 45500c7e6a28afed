#include "lathe/parallel/params.h"

#include <algorithm>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lathe/base/arena.h"
#include "lathe/base/error.h"
#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/recipe.h"

namespace lathe::parallel {

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

bool multiplied(const ParamSpec& s) {
  return !s.lookup && (s.role == Role::matrix || s.role == Role::embedding);
}

/// FNV-1a: names a stream of random bits for good, whatever the standard library.
u64 hash_of(std::string_view name) {
  u64 h = 0xcbf29ce484222325;
  for (const char c : name) h = (h ^ static_cast<u8>(c)) * 0x100000001b3;
  return h;
}

template <class T>
void fill(const Tensor& t, i64 begin, i64 end, const ParamSpec& s, u64 seed) {
  const Rng rng{seed, Draw::init, hash_of(s.name)};
  T* x = t.row<T>(0);
  for (i64 i = begin; i < end; ++i) {
    const double v = s.role == Role::gain ? 1
                     : s.init_std == 0    ? 0
                                          : s.init_std * rng.normal(static_cast<u64>(i));
    x[i] = static_cast<T>(v);
  }
}

void fill(const Param& p, i64 begin, i64 end, u64 seed) {
  if (p.master.type == DType::f64)
    fill<double>(p.master, begin, end, p.spec, seed);
  else
    fill<float>(p.master, begin, end, p.spec, seed);
}

}  // namespace

ParamSet::ParamSet(std::vector<ParamSpec> specs, const numerics::Recipe& recipe, Arena& weights,
                   Arena* grads) {
  const DType operand = numerics::info(recipe.linear.forward.b.format).storage;
  for (ParamSpec& s : specs) {
    const char* what = plural(s.role);
    Param p;
    p.master = weights.take(what, recipe.master, s.rows, s.cols);
    p.work = multiplied(s) && operand != recipe.master
                 ? weights.take("copies for products", operand, s.rows, s.cols)
                 : p.master;
    if (grads) p.grad = grads->take(what, recipe.master, s.rows, s.cols);
    p.spec = std::move(s);
    params_.push_back(std::move(p));
  }
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

void ParamSet::refresh_work(Queue& q, const kernels::Kernels& k) {
  for (const Param& p : params_)
    if (p.work.type != p.master.type) k.pointwise.convert(q, p.work, p.master);
}

void ParamSet::zero_grads(Queue& q, const kernels::Kernels& k) {
  for (const Param& p : params_)
    if (!p.grad.empty()) k.pointwise.zero(q, p.grad);
}

}  // namespace lathe::parallel
