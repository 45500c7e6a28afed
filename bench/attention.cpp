// Attention at the shape of GPT-2 124M, 8 x 1024 tokens, 12 heads of 64: forward and backward in
// every table that runs here, in turns with one another and with the arithmetic's own peak. Prints
// Markdown.
//
//   bench_attention [--threads N] [--rounds N] [--batch N] [--time N] [--smoke]
//
// Operations are those of the pairs that are seen: two products forward, five backward. "peak":
// share of the peak loop measured before and after. "avx2": how many times as long AVX2 took in the
// same round. All medians over rounds, of processor time over threads: what other programs run in
// between does not count, though what they do to the caches does.

#include "lathe/kernels/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "bench/peak.h"
#include "bench/program.h"
#include "lathe/base/cpu.h"
#include "lathe/base/error.h"
#include "lathe/base/median.h"
#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/kernels/pointwise.h"
#include "lathe/numerics/format.h"

namespace lathe::bench {
namespace {

using numerics::Format;

constexpr i64 kHeads = 12, kWidth = 64;

struct Elements {
  DType type;
  i64 rows, cols;
  std::vector<std::byte> bytes;

  Elements(DType t, i64 r, i64 c)
      : type(t), rows(r), cols(c), bytes(static_cast<std::size_t>(r * c * size_of(t))) {
    const Rng rng{1};
    float draws[4096];
    for (u64 i = 0; i < 4096; ++i) draws[i] = static_cast<float>(rng.normal(i));
    for (i64 i = 0; i < r * c; ++i) {
      const float x = draws[(i + i / 4096) % 4096];
      if (t == DType::bf16)
        reinterpret_cast<bf16*>(bytes.data())[i] = kernels::to_bf16(x);
      else
        reinterpret_cast<float*>(bytes.data())[i] = x;
    }
  }
  Tensor view() { return {bytes.data(), type, rows, cols, cols}; }
};

double processor_time() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

template <class F>
double seconds(const Queue& q, const F& f) {
  const double begin = processor_time();
  f();
  return (processor_time() - begin) / q.threads();
}

double peak_rate(Queue& q, const PeakLoop& loop) {
  const i64 pieces = q.threads() * 16;
  const double time = seconds(q, [&] { for_pieces(q, pieces, [&](i64, int) { loop.run(); }); });
  return static_cast<double>(pieces) * loop.operations / time;
}

/// One pass of one table over the rounds.
struct Series {
  std::vector<double> rate, share, times;
};

void report(std::string_view format, std::string_view table, std::string_view pass, const Series& s,
            const Series& avx2, const PeakLoop& loop) {
  std::vector<double> ratio;
  for (std::size_t i = 0; i < s.times.size() && i < avx2.times.size(); ++i)
    ratio.push_back(avx2.times[i] / s.times[i]);
  fmt::print("| {} | {} | {} | {:.1f} | {:.0f} | {:.0f} % of {} | {} |\n", format, table, pass,
             1e3 * median(s.times), median(s.rate), 100 * median(s.share), loop.instruction,
             ratio.empty() ? "" : fmt::format("{:.2f}", median(ratio)));
  std::fflush(stdout);
}

void run_format(Queue& q, Format format, i64 batch, i64 time, int rounds) {
  const i64 rows = batch * time;
  const DType type = numerics::info(format).storage;
  Elements qkv(type, rows, 3 * kHeads * kWidth), dqkv(type, rows, 3 * kHeads * kWidth);
  Elements out(type, rows, kHeads * kWidth), dout(type, rows, kHeads * kWidth);
  Elements lse(DType::f32, rows, kHeads);
  const std::vector<i32> starts(static_cast<std::size_t>(rows), 0);
  const kernels::Places at{starts.data(), batch, time};
  const kernels::AttentionShape shape{kHeads, kHeads, kWidth, 0, format};
  const double pairs =
      static_cast<double>(batch * kHeads * time) * static_cast<double>(time + 1) / 2;
  const double forward = 4 * pairs * kWidth, backward = 10 * pairs * kWidth;
  const PeakLoop loop = peak_loop(format == Format::bf16);

  std::vector<const kernels::Kernels*> tables;
  for (const kernels::Candidate& c : kernels::candidates())
    if (c.why_not.empty() && c.table != &kernels::ref()) tables.push_back(c.table);
  std::vector<Series> ahead(tables.size()), back(tables.size());
  for (int r = -1; r < rounds; ++r)
    for (std::size_t t = 0; t < tables.size(); ++t) {
      const double before = peak_rate(q, loop);
      const double first = seconds(q, [&] {
        tables[t]->attention.forward(q, out.view(), lse.view(), qkv.view(), at, shape);
      });
      const double between = peak_rate(q, loop);
      const double second = seconds(q, [&] {
        tables[t]->attention.backward(q, dqkv.view(), dout.view(), out.view(), lse.view(),
                                      qkv.view(), at, shape);
      });
      const double after = peak_rate(q, loop);
      if (r < 0) continue;  // memory touched
      ahead[t].times.push_back(first);
      ahead[t].rate.push_back(forward / first * 1e-9);
      ahead[t].share.push_back(forward / first / ((before + between) / 2));
      back[t].times.push_back(second);
      back[t].rate.push_back(backward / second * 1e-9);
      back[t].share.push_back(backward / second / ((between + after) / 2));
    }
  const auto avx2 = std::find(tables.begin(), tables.end(), &kernels::avx2()) - tables.begin();
  const auto base = static_cast<std::size_t>(avx2);
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const std::string_view name = numerics::info(format).name, table = tables[t]->name;
    report(name, table, "forward", ahead[t], base < tables.size() ? ahead[base] : Series{}, loop);
    report(name, table, "backward", back[t], base < tables.size() ? back[base] : Series{}, loop);
  }
}

void run(int argc, char** argv) {
  int threads = 1, rounds = 7;
  i64 batch = 8, time = 1024;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const auto number = [&] { return ++i < argc ? std::max(1, std::atoi(argv[i])) : 1; };
    if (arg == "--threads") {
      threads = number();
    } else if (arg == "--rounds") {
      rounds = number();
    } else if (arg == "--batch") {
      batch = number();
    } else if (arg == "--time") {
      time = number();
    } else if (arg == "--smoke") {
      batch = rounds = 1;
      time = 64;
    } else {
      throw Error("unknown argument {}", arg)
          .hint("bench_attention [--threads N] [--rounds N] [--batch N] [--time N] [--smoke]");
    }
  }
  Queue q(threads);
  fmt::print("{}, {} threads, {} x {} tokens, {} heads of {}\n\n", cpu().model, threads, batch,
             time, kHeads, kWidth);
  fmt::print("| format | table | pass | ms | GFLOP/s | peak | avx2 |\n");
  fmt::print("|---|---|---|---|---|---|---|\n");
  for (const Format f : {Format::bf16, Format::f32}) run_format(q, f, batch, time, rounds);
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  return lathe::bench::program([&] { lathe::bench::run(argc, argv); });
}
