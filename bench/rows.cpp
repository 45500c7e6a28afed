// Row kernels at the shapes of GPT-2 124M, 8 x 1024 tokens: bytes per second in every table, as a
// share of what a plain copy moves in the same round, and against ref where that is not too slow.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "bench/timing.h"
#include "lathe/base/median.h"
#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/pointwise.h"
#include "lathe/kernels/update.h"

namespace lathe {
namespace {

using bench::seconds;
constexpr i64 kRows = 8192, kWidth = 768, kHidden = 3072, kVocab = 50304, kSlab = 256;

struct Buffer {
  Buffer(DType type, i64 rows, i64 cols)
      : bytes(static_cast<std::size_t>(rows * cols * size_of(type))) {
    view = {bytes.data(), type, rows, cols, cols};
    const Rng rng{1};
    const i64 period = std::min<i64>(rows * cols, 65536);
    for (i64 i = 0; i < rows * cols; ++i) {
      const u32 bits = static_cast<u32>(rng.word(static_cast<u64>(i % period)));
      const float x = static_cast<float>(bits) * 0x1p-31F - 1;
      const u32 u = std::bit_cast<u32>(x);
      std::byte* to = bytes.data() + i * size_of(type);
      if (type == DType::bf16) {
        const u16 h = static_cast<u16>(u >> 16);
        std::memcpy(to, &h, 2);
      } else {
        std::memcpy(to, &x, 4);
      }
    }
  }
  std::vector<std::byte> bytes;
  Tensor view;
};

struct Case {
  std::string name;
  i64 bytes;  // read and written, each once
  std::function<void(const kernels::Kernels&, Queue&)> run;
};

/// Rounds of: a copy, then the case in each table. Prints medians.
void measure(const Case& c, Queue& q, Buffer& from, Buffer& to) {
  std::vector<const kernels::Kernels*> tables;
  for (const kernels::Candidate& t : kernels::candidates())
    if (t.why_not.empty() &&
        (t.table->name == "avx512" || t.table->name == "avx2" || t.table->name == "ref"))
      tables.push_back(t.table);
  std::vector<double> copy;
  std::vector<std::vector<double>> times(tables.size());
  for (int round = 0; round < 7; ++round) {
    copy.push_back(seconds([&] {
      for_pieces(q, kRows / 16, [&](i64 p, int) {
        const auto bytes = static_cast<std::size_t>(to.view.bytes() / (kRows / 16));
        std::memcpy(to.bytes.data() + static_cast<std::size_t>(p) * bytes,
                    from.bytes.data() + static_cast<std::size_t>(p) * bytes, bytes);
      });
    }));
    for (std::size_t t = 0; t < tables.size(); ++t)
      if (tables[t]->name != "ref" || round == 0)
        times[t].push_back(seconds([&] { c.run(*tables[t], q); }));
  }
  const double peak = 2 * static_cast<double>(to.view.bytes()) / median(copy);
  const double ref = median(times.back());
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const double time = median(times[t]), rate = static_cast<double>(c.bytes) / time;
    fmt::print("{:16} {:8} {:8.2f} ms {:6.1f} GB/s  {:4.0f} % of a copy  {:5.1f}x ref\n", c.name,
               tables[t]->name, time * 1e3, rate * 1e-9, 100 * rate / peak, ref / time);
  }
}

/// Everything the cases work on.
struct Data {
  Buffer x{DType::f32, kRows, kWidth}, dx{DType::f32, kRows, kWidth}, y{DType::bf16, kRows, kWidth};
  Buffer w{DType::f32, 1, kWidth}, b{DType::f32, 1, kWidth}, bias{DType::f32, 1, kHidden};
  Buffer mean{DType::f32, kRows, 1}, rstd{DType::f32, kRows, 1};
  Buffer wide{DType::bf16, kRows, 2 * kHidden};
  Buffer hidden{DType::bf16, kRows, kHidden}, grad{DType::bf16, kRows, kHidden};
  Buffer master{DType::f32, kHidden, kHidden}, m{DType::f32, kHidden, kHidden};
  Buffer v{DType::f32, kHidden, kHidden}, g{DType::f32, kHidden, kHidden};
  Buffer work{DType::bf16, kHidden, kHidden}, sum{DType::f32, 1, 2};
  Buffer logits{DType::f32, kSlab, kVocab}, table{DType::f32, kVocab, kWidth};
  Buffer angles{DType::f32, 1024, 64};
  std::vector<i32> targets = std::vector<i32>(kSlab, 7), ids, start = std::vector<i32>(kRows, 0);
  kernels::Places at{start.data(), 8, 1024};

  Data() {
    for (i64 r = 0; r < kRows; ++r) ids.push_back(static_cast<i32>(r * 7919 % kVocab));
  }
};

using kernels::Kernels;

std::vector<Case> norm_cases(Data& d) {
  const i64 forward = d.x.view.bytes() + d.y.view.bytes();
  const i64 backward = forward + 2 * d.dx.view.bytes();
  return {{"layer_forward", forward,
           [&](const Kernels& k, Queue& q) {
             k.norm.layer_forward(q, d.y.view, d.mean.view, d.rstd.view, d.x.view, d.w.view,
                                  d.b.view, 1e-5);
           }},
          {"layer_backward", backward,
           [&](const Kernels& k, Queue& q) {
             k.norm.layer_backward(q, d.dx.view, d.w.view, d.b.view, d.y.view, d.x.view, d.w.view,
                                   d.mean.view, d.rstd.view, true);
           }},
          {"rms_backward", backward, [&](const Kernels& k, Queue& q) {
             k.norm.rms_backward(q, d.dx.view, d.b.view, d.y.view, d.x.view, d.w.view, d.rstd.view,
                                 true);
           }}};
}

std::vector<Case> activation_cases(Data& d) {
  const i64 hidden = d.hidden.view.bytes();
  return {{"gelu_forward", 2 * hidden,
           [&](const Kernels& k, Queue& q) {
             k.pointwise.gelu_forward(q, d.grad.view, d.hidden.view);
           }},
          {"gelu_backward", 3 * hidden,
           [&](const Kernels& k, Queue& q) {
             k.pointwise.gelu_backward(q, d.grad.view, d.grad.view, d.hidden.view);
           }},
          {"swiglu_forward", 3 * hidden,
           [&](const Kernels& k, Queue& q) {
             k.pointwise.swiglu_forward(q, d.grad.view, d.wide.view);
           }},
          {"swiglu_backward", 5 * hidden,
           [&](const Kernels& k, Queue& q) {
             k.pointwise.swiglu_backward(q, d.wide.view, d.grad.view, d.wide.view);
           }},
          {"rope", 2 * d.y.view.bytes(),
           [&](const Kernels& k, Queue& q) {
             k.pointwise.rope(q, d.y.view, 12, 64, d.angles.view, d.at, 0, 1);
           }},
          {"column_sums", hidden, [&](const Kernels& k, Queue& q) {
             k.pointwise.add_column_sums(q, d.bias.view, d.hidden.view);
           }}};
}

std::vector<Case> memory_cases(Data& d) {
  const i64 master = d.master.view.bytes();
  return {{"convert", master + d.work.view.bytes(),
           [&](const Kernels& k, Queue& q) { k.pointwise.convert(q, d.work.view, d.master.view); }},
          {"add", 3 * master,
           [&](const Kernels& k, Queue& q) { k.pointwise.add(q, d.m.view, d.g.view); }},
          {"zero", master, [&](const Kernels& k, Queue& q) { k.pointwise.zero(q, d.g.view); }},
          {"embed_forward", 2 * d.x.view.bytes(),
           [&](const Kernels& k, Queue& q) {
             k.pointwise.embed_forward(q, d.dx.view, d.ids.data(), d.table.view, Tensor{}, d.at);
           }},
          {"embed_backward", 3 * d.x.view.bytes(), [&](const Kernels& k, Queue& q) {
             k.pointwise.embed_backward(q, d.table.view, Tensor{}, d.ids.data(), d.dx.view, d.at);
           }}};
}

std::vector<Case> loss_and_update_cases(Data& d) {
  return {{"cross_entropy", d.logits.view.bytes() * 3 / 2,
           [&](const Kernels& k, Queue& q) {
             Tensor over = d.logits.view;
             over.type = DType::bf16;
             over.stride *= 2;
             k.loss.cross_entropy(q, d.mean.view.slice_rows(0, kSlab), over, d.logits.view,
                                  d.targets.data(), kVocab, 1);
           }},
          {"adamw", 7 * d.master.view.bytes(),
           [&](const Kernels& k, Queue& q) {
             const kernels::AdamW a{1e-9, 0.9, 0.95, 1e-8, 0.1, 0.5, 0.5, 1};
             k.update.adamw(q, d.master.view, {.values = d.m.view}, {.values = d.v.view}, d.g.view,
                            a, {});
           }},
          {"sum_squares", d.master.view.bytes(), [&](const Kernels& k, Queue& q) {
             const Tensor total{d.sum.bytes.data(), DType::f64, 1, 1, 1};
             k.update.sum_squares(q, total, d.master.view);
           }}};
}

}  // namespace
}  // namespace lathe

/// bench_rows [threads [case]]
int main(int argc, char** argv) {
  using namespace lathe;
  Queue q(argc > 1 ? std::atoi(argv[1]) : 1);
  const std::string only = argc > 2 ? argv[2] : "";
  Data data;
  fmt::print("{} threads\n", q.threads());
  for (const auto& cases :
       {norm_cases(data), activation_cases(data), memory_cases(data), loss_and_update_cases(data)})
    for (const Case& c : cases)
      if (only.empty() || c.name == only) measure(c, q, data.x, data.dx);
}
