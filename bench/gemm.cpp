// Matrix products at the shapes of GPT-2 124M, packing of both operands included, in turns with
// oneDNN and with the arithmetic's own peak. Prints Markdown.
//
//   bench_gemm [--scales] [--threads N] [--rounds N] [--kernels NAME] [--processor-time] [--smoke]
//
// --scales: instead, the same BF16 products with scales beside the elements (one a tensor; one a
// row; tiles of 128 and squares of 128 x 128), in turns with the product without: how many times
// as long they took, median over rounds.
//
// --processor-time counts what this process's one thread ran rather than what passed: for machines
// on which others run too.
//
// "peak": share of the peak loop measured before and after. "oneDNN": how many times as long oneDNN
// took in the same round, with operands already in the layout it prefers, and with putting them
// into it. All medians over rounds.

#include "lathe/kernels/gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/peak.h"
#include "bench/peer_gemm.h"
#include "bench/program.h"
#include "bench/timing.h"
#include "lathe/base/cpu.h"
#include "lathe/base/error.h"
#include "lathe/base/median.h"
#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"

namespace lathe::bench {
namespace {

using kernels::Along;
using numerics::Format;

/// Elements of about 1, in memory that is touched.
struct Elements {
  DType type;
  std::vector<std::byte> bytes;

  Elements(DType t, i64 count) : type(t), bytes(static_cast<std::size_t>(count * size_of(t))) {
    float draws[4096];
    const Rng rng{1};
    for (u64 i = 0; i < 4096; ++i) draws[i] = static_cast<float>(rng.normal(i));
    for (i64 i = 0; i < count; ++i) {
      const float x = draws[(i + i / 4096) % 4096];
      if (t == DType::bf16)
        reinterpret_cast<bf16*>(bytes.data())[i] = kernels::to_bf16(x);
      else
        reinterpret_cast<float*>(bytes.data())[i] = x;
    }
  }
  Tensor matrix(i64 rows, i64 cols) { return {bytes.data(), type, rows, cols, cols}; }
};

/// A forward product (both operands along their rows' elements, result in the operands' type), or a
/// weight gradient (both along their rows, added to float).
struct Shape {
  i64 m, n, k;
  bool gradient;
};

void run_shape(const kernels::Kernels& table, Queue& q, Format format, const Shape& s, int rounds,
               Time time) {
  const DType type = numerics::info(format).storage;
  Elements x(type, s.m * s.k), y(type, s.n * s.k), z(s.gradient ? DType::f32 : type, s.m * s.n);
  kernels::Operand a, b;
  a.format = b.format = format;
  a.along = b.along = s.gradient ? Along::rows : Along::cols;
  a.data = s.gradient ? x.matrix(s.k, s.m) : x.matrix(s.m, s.k);
  b.data = s.gradient ? y.matrix(s.k, s.n) : y.matrix(s.n, s.k);
  const Tensor c = z.matrix(s.m, s.n);
  const kernels::Epilogue e{.add = s.gradient};
  const PeakLoop loop = peak_loop(format == Format::bf16);
  const std::unique_ptr<PeerProduct> peer = peer_product(c, a, b, e.add, q.threads());

  const double flops = 2.0 * static_cast<double>(s.m * s.n) * static_cast<double>(s.k);
  std::vector<double> rate, share, prepared, whole;
  for (int r = -1; r < rounds; ++r) {
    const double before = measure_peak(q, loop, time);
    const double ours = seconds([&] { table.gemm.product(q, c, a, b, e); }, time);
    const double after = measure_peak(q, loop, time);
    const double reorder = peer ? seconds([&] { peer->prepare(); }, time) : 0;
    const double theirs = peer ? seconds([&] { peer->multiply(); }, time) : 0;
    if (r < 0) continue;  // memory touched, code made
    rate.push_back(flops / ours * 1e-9);
    share.push_back(flops / ours / ((before + after) / 2));
    prepared.push_back(theirs / ours);
    whole.push_back((theirs + reorder) / ours);
  }
  fmt::print("| {} | {} x {} x {}{} | {:.0f} | {:.0f} % of {} |", numerics::info(format).name, s.m,
             s.n, s.k, s.gradient ? ", gradient" : "", median(rate), 100 * median(share),
             loop.instruction);
  if (peer)
    fmt::print(" {:.2f} | {:.2f} |\n", median(prepared), median(whole));
  else
    fmt::print(" not built in | |\n");
  std::fflush(stdout);
}

/// One product with its operands' scales, all of about 1.
struct Scaled {
  kernels::Operand a, b;
  std::vector<float> of_a, of_b;

  Scaled(const kernels::Operand& x, const kernels::Operand& y, const numerics::Encoding& ex,
         const numerics::Encoding& ey)
      : a(x), b(y) {
    scale(a, of_a, ex);
    scale(b, of_b, ey);
  }
  static void scale(kernels::Operand& x, std::vector<float>& scales,
                    const numerics::Encoding& encoding) {
    const numerics::ScaleShape s = scale_shape(encoding, x.outer(), x.summed());
    scales.assign(static_cast<std::size_t>(s.rows * s.cols), 1.1F);
    x.scales = tensor(std::as_const(scales).data(), s.rows, s.cols);
    x.scale_outer = s.outer;
    x.scale_depth = s.depth;
  }
};

void run_scaled(const kernels::Kernels& table, Queue& q, const Shape& s, int rounds, Time time) {
  Elements x(DType::bf16, s.m * s.k), y(DType::bf16, s.n * s.k),
      z(s.gradient ? DType::f32 : DType::bf16, s.m * s.n);
  kernels::Operand a, b;
  a.format = b.format = Format::e4m3;
  a.along = b.along = s.gradient ? Along::rows : Along::cols;
  a.data = s.gradient ? x.matrix(s.k, s.m) : x.matrix(s.m, s.k);
  b.data = s.gradient ? y.matrix(s.k, s.n) : y.matrix(s.n, s.k);
  const Tensor c = z.matrix(s.m, s.n);
  const auto timed = [&](const kernels::Operand& of_a, const kernels::Operand& of_b) {
    return seconds([&] { table.gemm.product(q, c, of_a, of_b, {.add = s.gradient}); }, time);
  };
  numerics::Encoding current, row, tile, square;
  current.scaling = numerics::Scaling::current;
  row.scaling = numerics::Scaling::row;
  tile.scaling = square.scaling = numerics::Scaling::tile;
  square.square = !s.gradient;  // a weight gradient has no weights
  const Scaled all[] = {{a, b, current, current}, {a, b, row, row}, {a, b, tile, square}};
  std::vector<double> plain, ratios[3];
  for (int r = -1; r < rounds; ++r)
    for (int i = 0; i < 3; ++i) {
      const double before = timed(a, b), scaled = timed(all[i].a, all[i].b), after = timed(a, b);
      if (r < 0) continue;
      plain.push_back(before);
      ratios[i].push_back(scaled / ((before + after) / 2));
    }
  const double flops = 2.0 * static_cast<double>(s.m * s.n) * static_cast<double>(s.k);
  fmt::print("| {} x {} x {}{} | {:.0f} | {:.3f} | {:.3f} | {:.3f} |\n", s.m, s.n, s.k,
             s.gradient ? ", gradient" : "", flops / median(plain) * 1e-9, median(ratios[0]),
             median(ratios[1]), median(ratios[2]));
  std::fflush(stdout);
}

void run(int argc, char** argv) {
  int threads = usable_cores(), rounds = 9;
  std::string name = "auto";
  bool smoke = false, scales = false;
  Time time = Time::passed;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const auto number = [&] { return ++i < argc ? std::max(1, std::atoi(argv[i])) : 1; };
    if (arg == "--threads")
      threads = number();
    else if (arg == "--rounds")
      rounds = number();
    else if (arg == "--kernels" && i + 1 < argc)
      name = argv[++i];
    else if (arg == "--processor-time")
      time = Time::processor;
    else if (arg == "--scales")
      scales = true;
    else if (arg == "--smoke")
      smoke = true;
    else
      throw Error("unknown argument {}", arg)
          .hint(
              "bench_gemm [--scales] [--threads N] [--rounds N] [--kernels NAME] "
              "[--processor-time] "
              "[--smoke]");
  }
  if (time == Time::processor && threads != 1)
    throw Error("--processor-time counts one thread").hint("--threads 1 --processor-time");
  const kernels::Kernels& table = kernels::select(name);
  Queue q(threads);
  fmt::print("{}, threads {}{}, kernels {}, {}\n\n", cpu().model, threads,
             time == Time::processor ? " (processor time)" : "", kernels::describe(table),
             peer_name());
  std::vector<Shape> shapes;
  for (const i64 n : {768, 2304, 3072})
    for (const i64 k : {768, 2304, 3072}) shapes.push_back({4096, n, k, false});
  shapes.push_back({4096, 50304, 768, false});
  shapes.push_back({768, 3072, 4096, true});
  shapes.push_back({768, 3072, 8192, true});
  if (smoke) {
    shapes = {{64, 96, 64, false}, {64, 96, 64, true}};
    rounds = 1;
  }
  if (scales) {
    fmt::print("| M x N x K | GFLOP/s without scales | one a tensor | one a row | of 128 |\n");
    fmt::print("|---|---|---|---|---|\n");
    for (const Shape& s : shapes) run_scaled(table, q, s, rounds, time);
    return;
  }
  fmt::print("| format | M x N x K | GFLOP/s | peak | oneDNN, prepared | oneDNN, whole |\n");
  fmt::print("|---|---|---|---|---|---|\n");
  for (const Format f : {Format::bf16, Format::f32})
    for (const Shape& s : shapes)
      if (f == Format::bf16 || s.n < 50000) run_shape(table, q, f, s, rounds, time);
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  return lathe::bench::program([&] { lathe::bench::run(argc, argv); });
}
