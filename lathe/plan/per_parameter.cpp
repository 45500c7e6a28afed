#include "lathe/plan/per_parameter.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/units.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/recipe.h"
#include "lathe/optim/optimizer.h"
#include "lathe/parallel/params.h"
#include "lathe/train/config.h"
#include "lathe/train/step.h"

namespace lathe::plan {

namespace {

i64 parts(i64 n, i64 size) { return (n + size - 1) / size; }

/// A run without memory, whose tensors have the types and shapes of a real one's.
struct DryRun {
  explicit DryRun(const train::RunConfig& c) : trainer(c, kernels::dry(), q, arenas) {}
  Queue q{0};
  train::Arenas arenas = train::Arenas::measuring();
  train::Trainer trainer;
};

void add_copy(ParameterBytes& b, const numerics::Encoding& e, const parallel::ParamSpec& s) {
  const CopyBytes copy = copy_bytes(e, s.rows, s.cols);
  b.weights += copy.elements;
  b.scales += copy.scales;
}

/// Weight and master of one parameter.
void add_weight(ParameterBytes& b, const parallel::Param& p) {
  const numerics::Encoding &forward = p.products.forward.b, &back = p.products.grad_x.b;
  const numerics::FormatInfo& f = numerics::info(forward.format);
  const bool is_master = f.storage == p.master.type && f.bits == 8 * size_of(p.master.type);
  if (!p.multiplied() || is_master) {
    b.weights += p.master.bytes();
    return;
  }
  b.masters += p.master.bytes();
  add_copy(b, forward, p.spec);
  if (!(back == forward && numerics::same_both_ways(forward))) add_copy(b, back, p.spec);
}

void add(ParameterBytes& sum, const ParameterBytes& b) {
  sum.parameters += b.parameters;
  sum.weights += b.weights;
  sum.masters += b.masters;
  sum.gradients += b.gradients;
  sum.moments += b.moments;
  sum.scales += b.scales;
}

std::string row(const ParameterBytes& b) {
  const auto each = [&](i64 bytes) {
    return static_cast<double>(bytes) / static_cast<double>(b.parameters);
  };
  return fmt::format("  {:<10} {:>16} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f} {:>8.2f}\n",
                     b.name, grouped(b.parameters), each(b.weights), each(b.masters),
                     each(b.gradients), each(b.moments), each(b.scales), each(b.total()));
}

}  // namespace

CopyBytes copy_bytes(const numerics::Encoding& e, i64 rows, i64 cols) {
  using numerics::Scaling;
  CopyBytes b{.elements = parts(rows * cols * numerics::info(e.format).bits, 8)};
  switch (e.scaling) {
    case Scaling::none:
      break;
    case Scaling::current:
    case Scaling::delayed:
    case Scaling::shift:
      b.scales = 4;
      break;
    case Scaling::row:
      b.scales = 4 * rows;
      break;
    case Scaling::tile:
      b.scales = 4 * (e.square ? parts(rows, 128) : rows) * parts(cols, 128);
      break;
    case Scaling::mx:
      b.scales = rows * parts(cols, 32);
      break;
    case Scaling::nvfp4:
      b.scales = rows * parts(cols, 16) + 4;
      break;
    case Scaling::hif4:
      b.scales = 4 * rows * parts(cols, 64);
      break;
  }
  return b;
}

std::vector<ParameterBytes> bytes_per_parameter(const train::RunConfig& c) {
  DryRun dry(c);
  std::map<std::string, Tensor> state;
  for (const auto& [name, t] : dry.trainer.optimizer().state()) state[name] = t;
  ParameterBytes matrices{.name = "matrices"}, tables{.name = "embeddings"},
      vectors{.name = "vectors"}, all{.name = "all"};
  const auto row_of = [&](parallel::Role r) -> ParameterBytes& {
    if (r == parallel::Role::matrix) return matrices;
    const bool table = r == parallel::Role::embedding || r == parallel::Role::position;
    return table ? tables : vectors;
  };
  for (const parallel::Param& p : dry.trainer.params().all()) {
    ParameterBytes b{.name = p.spec.name, .parameters = p.spec.size()};
    add_weight(b, p);
    b.gradients = p.grad.bytes();
    for (const char* moment : {".m", ".v"}) {
      b.moments += state[p.spec.name + moment].bytes();
      b.scales += state[p.spec.name + moment + ".scales"].bytes();
    }
    add(row_of(p.spec.role), b);
    add(all, b);
  }
  return {matrices, tables, vectors, all};
}

i64 saved_bytes(const train::RunConfig& c) {
  DryRun dry(c);
  i64 sum = 0;
  for (const parallel::Param& p : dry.trainer.params().all()) sum += p.master.bytes();
  for (const auto& [name, t] : dry.trainer.optimizer().state()) sum += t.bytes();
  return sum;
}

std::string parameter_table(const train::RunConfig& c, i64 held) {
  std::string s = fmt::format("bytes a parameter {:>11} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "",
                              "weight", "master", "gradient", "moments", "scales", "total");
  const std::vector<ParameterBytes> rows = bytes_per_parameter(c);
  for (const ParameterBytes& b : rows)
    if (b.parameters > 0) s += row(b);
  const i64 counted = rows.back().total(), n = rows.back().parameters;
  if (held - counted > n / 100)
    s += fmt::format(
        "  held here: {:.2f}, operands in the type that products read, and two gradients of a tied "
        "embedding\n",
        static_cast<double>(held) / static_cast<double>(n));
  return s;
}

}  // namespace lathe::plan
