// Encoding of one operand of a linear layer at the size of GPT-2 124M, (4096, 768) in BF16, for
// each scheme that recipes use, in turns with the product it is made for. Prints Markdown.
//
//   bench_encode [--threads N] [--rounds N] [--kernels NAME] [--processor-time] [--smoke]
//
// "ns": nanoseconds an element. "GB/s": x and codes, each once. "product": share of the time of the
// BF16 product 4096 x 768 x 768 in the same round. Medians over rounds.

#include "lathe/kernels/encode.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "bench/program.h"
#include "bench/timing.h"
#include "lathe/base/cpu.h"
#include "lathe/base/error.h"
#include "lathe/base/median.h"
#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/gemm.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"

namespace lathe::bench {
namespace {

using kernels::Along;
using numerics::Encoding;
using numerics::Format;
using numerics::Scaling;
using numerics::Tie;

struct Scheme {
  std::string_view name;
  Encoding encoding;
  Along along;
};

std::vector<Scheme> schemes() {
  const Encoding e4m3{.format = Format::e4m3, .scaling = Scaling::current};
  const Encoding delayed{.format = Format::e4m3, .scaling = Scaling::delayed};
  const Encoding row{.format = Format::e4m3, .scaling = Scaling::row};
  const Encoding tile{.format = Format::e4m3, .scaling = Scaling::tile};
  const Encoding mxfp8{.format = Format::e4m3, .scaling = Scaling::mx};
  const Encoding mxfp4{.format = Format::e2m1,
                       .scaling = Scaling::mx,
                       .rounding = Tie::stochastic,
                       .hadamard = 64,
                       .head_room = 0.75F};
  const Encoding nvfp4{.format = Format::e2m1, .scaling = Scaling::nvfp4};
  Encoding nvfp4_full = nvfp4, nvfp4_square = nvfp4, tile_square = tile;
  nvfp4_full.rounding = Tie::stochastic;
  nvfp4_full.hadamard = 16;
  nvfp4_square.square = tile_square.square = true;
  const Encoding hif8{.format = Format::hif8, .rounding = Tie::away};
  const Encoding shift{.format = Format::hif8, .scaling = Scaling::shift, .rounding = Tie::away};
  const Encoding hif4{.format = Format::s1p2, .scaling = Scaling::hif4, .rounding = Tie::away};
  std::vector<Scheme> all{{"E4M3 unscaled", {.format = Format::e4m3}, Along::cols}};
  for (const Along along : {Along::cols, Along::rows}) {
    for (const auto& [name, e, way] : {Scheme{"E4M3 current", e4m3, along},
                                       {"E4M3 delayed", delayed, along},
                                       {"E4M3 row", row, along},
                                       {"E4M3 tile", tile, along},
                                       {"MXFP8", mxfp8, along},
                                       {"MXFP4, Hadamard 64, stochastic", mxfp4, along},
                                       {"NVFP4", nvfp4, along},
                                       {"NVFP4, Hadamard 16, stochastic", nvfp4_full, along},
                                       {"HiF8", hif8, along},
                                       {"HiF8 shift", shift, along},
                                       {"HiF4", hif4, along}})
      all.push_back({name, e, way});
  }
  all.push_back({"E4M3 tile, square", tile_square, Along::cols});
  all.push_back({"NVFP4, square", nvfp4_square, Along::cols});
  return all;
}

struct Options {
  int threads = usable_cores(), rounds = 9;
  std::string kernels = "auto";
  Time time = Time::passed;
  i64 rows = 4096, cols = 768;
};

std::vector<bf16> normal(i64 count) {
  std::vector<bf16> x(static_cast<std::size_t>(count));
  const Rng rng{1};
  for (u64 i = 0; i < x.size(); ++i) x[i] = kernels::to_bf16(static_cast<float>(rng.normal(i)));
  return x;
}

void run_scheme(const kernels::Kernels& table, Queue& q, const Scheme& s, const Options& o) {
  std::vector<bf16> x_of = normal(o.rows * o.cols), codes_of(x_of.size()), w_of(x_of.size());
  std::vector<bf16> y_of(x_of.size());
  std::vector<float> scales_of(x_of.size()), history_of(17, 0);
  history_of[0] = 100;
  const Tensor x = tensor(x_of.data(), o.rows, o.cols),
               codes = tensor(codes_of.data(), o.rows, o.cols);
  const i64 vectors = s.along == Along::cols ? o.rows : o.cols;
  const numerics::ScaleShape shape =
      numerics::scale_shape(s.encoding, vectors, o.rows * o.cols / vectors);
  const Tensor scales = tensor(scales_of.data(), shape.rows, shape.cols);
  const Tensor history = tensor(history_of.data(), 1, 17);
  const Tensor w = tensor(w_of.data(), o.cols, o.cols), y = tensor(y_of.data(), o.rows, o.cols);
  std::vector<double> ours, share;
  for (int r = -1; r < o.rounds; ++r) {
    const double t =
        seconds([&] { table.encode.encode(q, codes, scales, x, s.encoding, s.along, {}, history); },
                o.time);
    const double product = seconds(
        [&] {
          table.gemm.product(q, y, {.data = x, .format = Format::bf16},
                             {.data = w, .format = Format::bf16}, {});
        },
        o.time);
    if (r < 0) continue;  // memory touched
    ours.push_back(t);
    share.push_back(t / product);
  }
  const auto elements = static_cast<double>(o.rows * o.cols);
  fmt::print("| {} | {} | {:.3f} | {:.1f} | {:.1f} % |\n", s.name,
             s.along == Along::cols ? "columns" : "rows", median(ours) / elements * 1e9,
             elements * 4 / median(ours) * 1e-9, 100 * median(share));
  std::fflush(stdout);
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const auto number = [&] { return ++i < argc ? std::max(1, std::atoi(argv[i])) : 1; };
    if (arg == "--threads")
      o.threads = number();
    else if (arg == "--rounds")
      o.rounds = number();
    else if (arg == "--kernels" && i + 1 < argc)
      o.kernels = argv[++i];
    else if (arg == "--processor-time")
      o.time = Time::processor;
    else if (arg == "--smoke")
      o.rows = o.cols = 128, o.rounds = 1;
    else
      throw Error("unknown argument {}", arg)
          .hint(
              "bench_encode [--threads N] [--rounds N] [--kernels NAME] [--processor-time] "
              "[--smoke]");
  }
  if (o.time == Time::processor && o.threads != 1)
    throw Error("--processor-time counts one thread").hint("--threads 1 --processor-time");
  return o;
}

void run(const Options& o) {
  const kernels::Kernels& table = kernels::select(o.kernels);
  Queue q(o.threads);
  fmt::print("{}, threads {}{}, kernels {}\n\n", cpu().model, o.threads,
             o.time == Time::processor ? " (processor time)" : "", kernels::describe(table));
  fmt::print("| scheme | along | ns | GB/s | product |\n|---|---|---|---|---|\n");
  for (const Scheme& s : schemes()) run_scheme(table, q, s, o);
}

}  // namespace
}  // namespace lathe::bench

int main(int argc, char** argv) {
  return lathe::bench::program([&] { lathe::bench::run(lathe::bench::parse(argc, argv)); });
}
