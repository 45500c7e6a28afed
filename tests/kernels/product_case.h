#pragma once
// One product with all its operands, and what it must give by the order that gemm.h pins,
// evaluated the plain way.

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "lathe/base/cpu.h"
#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/gemm.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/numerics/format.h"
#include "tests/kernels/emulated_amx.h"

namespace lathe::kernels {
namespace {

using Product = decltype(GemmKernels::product);
using numerics::Format;

/// Subnormals as zero, as while a piece runs.
class FlushedSubnormals {
 public:
  FlushedSubnormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040u); }
  ~FlushedSubnormals() { _mm_setcsr(saved_); }
  FlushedSubnormals(const FlushedSubnormals&) = delete;
  FlushedSubnormals& operator=(const FlushedSubnormals&) = delete;

 private:
  unsigned saved_;
};

/// A matrix of any type with room between its rows.
struct Matrix {
  DType type;
  i64 rows, cols, stride;
  std::vector<std::byte> bytes;

  Matrix(DType t, i64 r, i64 c, i64 gap)
      : type(t),
        rows(r),
        cols(c),
        stride(c + gap),
        bytes(static_cast<std::size_t>(r * (c + gap) * size_of(t)), std::byte{0x5a}) {}
  Tensor view() { return {bytes.data(), type, rows, cols, stride}; }

  double get(i64 r, i64 c) {
    const Tensor t = view();
    if (type == DType::f64) return t.row<double>(r)[c];
    if (type == DType::f32) return static_cast<double>(t.row<float>(r)[c]);
    return static_cast<double>(to_float(t.row<bf16>(r)[c]));
  }
  void set(i64 r, i64 c, double x) {
    const Tensor t = view();
    if (type == DType::f64)
      t.row<double>(r)[c] = x;
    else if (type == DType::f32)
      t.row<float>(r)[c] = static_cast<float>(x);
    else
      t.row<bf16>(r)[c] = to_bf16(static_cast<float>(x));
  }
  template <class F>
  void fill(const F& f) {
    for (i64 r = 0; r < rows; ++r)
      for (i64 c = 0; c < cols; ++c) set(r, c, f(static_cast<u64>(r * cols + c)));
  }
};

struct Shape {
  i64 m, n, k;
};

/// How many vectors and elements share a scale; 0: all. Where `there` is false, there is none.
struct ScaleCut {
  bool there = false;
  i64 outer = 0, depth = 0;
};

struct Case {
  Shape s;
  Format format = Format::bf16;
  Along along_a = Along::cols, along_b = Along::cols;
  DType c_type = DType::f32;
  bool add = false, bias = false;
  i64 gap = 0;
  ScaleCut scales_a = {}, scales_b = {};
};

inline DType master(Format f) { return f == Format::f64 ? DType::f64 : DType::f32; }

/// The operands of a case; `draw(what, index)` gives the elements: of a, b, the bias, c, and the
/// scales of a and of b.
struct Problem {
  Case t;
  Matrix a, b, bias, c, scales_a, scales_b;

  template <class F>
  Problem(const Case& of, const F& draw)
      : t(of),
        a(matrix(of, of.along_a, of.s.m)),
        b(matrix(of, of.along_b, of.s.n)),
        bias(master(of.format), 1, of.s.n, 0),
        c(of.c_type, of.s.m, of.s.n, of.gap),
        scales_a(scales(of, of.scales_a, of.s.m)),
        scales_b(scales(of, of.scales_b, of.s.n)) {
    u64 what = 0;
    for (Matrix* x : {&a, &b, &bias, &c, &scales_a, &scales_b}) {
      x->fill([&](u64 i) { return draw(what, i); });
      ++what;
    }
  }
  static Matrix matrix(const Case& t, Along along, i64 outer) {
    const DType type = numerics::info(t.format).storage;
    return along == Along::cols ? Matrix(type, outer, t.s.k, t.gap)
                                : Matrix(type, t.s.k, outer, t.gap);
  }
  static Matrix scales(const Case& t, const ScaleCut& cut, i64 outer) {
    const auto entries = [](i64 size, i64 shared) {
      return shared > 0 ? (size + shared - 1) / shared : 1;
    };
    return {DType::f32, cut.there ? entries(outer, cut.outer) : 0, entries(t.s.k, cut.depth),
            t.gap};
  }
  static double at(Matrix& x, Along along, i64 outer, i64 k) {
    return along == Along::cols ? x.get(outer, k) : x.get(k, outer);
  }

  static Operand operand(Matrix& x, Format format, Along along, Matrix& scales,
                         const ScaleCut& cut) {
    Operand o;
    o.data = x.view();
    o.format = format;
    o.along = along;
    if (cut.there) o.scales = scales.view();
    o.scale_outer = cut.outer;
    o.scale_depth = cut.depth;
    return o;
  }
  Operand operand_a() { return operand(a, t.format, t.along_a, scales_a, t.scales_a); }
  Operand operand_b() { return operand(b, t.format, t.along_b, scales_b, t.scales_b); }

  void run(Product product, Queue& q) {
    Epilogue e;
    e.add = t.add;
    if (t.bias) e.bias = bias.view();
    product(q, c.view(), operand_a(), operand_b(), e);
  }

  /// Element (m, n) of the result in the order that gemm.h pins, from c as it is now.
  double expected(i64 m, i64 n) {
    const FlushedSubnormals flushed;
    if (master(t.format) == DType::f64) return in_order<double>(m, n);
    return static_cast<double>(in_order<float>(m, n));
  }
  template <class S>
  S in_order(i64 m, i64 n) {
    S acc = t.add ? static_cast<S>(c.get(m, n)) : S{0};
    if (!t.scales_a.there && !t.scales_b.there) {
      acc = chain<S>(m, n, 0, t.s.k, acc);
    } else {
      i64 chunk = t.s.k;
      for (const ScaleCut& cut : {t.scales_a, t.scales_b})
        if (cut.there && cut.depth > 0) chunk = cut.depth;
      for (i64 k = 0; k < t.s.k; k += chunk) {
        const S scale = static_cast<S>(scale_at(scales_a, t.scales_a, m, k)) *
                        static_cast<S>(scale_at(scales_b, t.scales_b, n, k));
        acc = std::fma(chain<S>(m, n, k, std::min(k + chunk, t.s.k), S{0}), scale, acc);
      }
    }
    if (t.bias) acc = acc + static_cast<S>(bias.get(0, n));
    return acc;
  }
  static double scale_at(Matrix& scales, const ScaleCut& cut, i64 outer, i64 k) {
    if (!cut.there) return 1;
    return scales.get(cut.outer > 0 ? outer / cut.outer : 0, cut.depth > 0 ? k / cut.depth : 0);
  }
  /// acc, further by elements [begin, end).
  template <class S>
  S chain(i64 m, i64 n, i64 begin, i64 end, S acc) {
    const auto x = [&](i64 k) { return k < end ? static_cast<S>(at(a, t.along_a, m, k)) : S{0}; };
    const auto y = [&](i64 k) { return k < end ? static_cast<S>(at(b, t.along_b, n, k)) : S{0}; };
    if (a.type != DType::bf16) {
      for (i64 k = begin; k < end; ++k) acc = std::fma(x(k), y(k), acc);
      return acc;
    }
    for (i64 first = begin; first < end; first += 32) {
      S even = 0, odd = 0;
      for (i64 k = first; k < first + 32; k += 2) {
        even = std::fma(x(k), y(k), even);
        odd = std::fma(x(k + 1), y(k + 1), odd);
      }
      acc = acc + (even + odd);
    }
    return acc;
  }
};

struct Entry {
  std::string name;
  Product product;
};

/// Every table that this machine runs, and AMX's product over tiles in plain C++.
inline std::vector<Entry> entries() {
  std::vector<Entry> all;
  for (const Candidate& c : candidates())
    if (c.why_not.empty()) all.push_back({std::string(c.table->name), c.table->gemm.product});
  if (why_not(Isa::avx512bf16).empty()) all.push_back({"emulated_amx", emulated_amx_product()});
  return all;
}
/// The same without ref, which has no scratch that a product could outgrow.
inline std::vector<Entry> blocked_entries() {
  std::vector<Entry> all = entries();
  std::erase_if(all, [](const Entry& e) { return e.name == "ref"; });
  return all;
}

/// Normal draws, repeated after a prime number so that no two rows of a matrix are alike.
inline double normal(u64 what, u64 i) {
  static const std::vector<double> draws = [] {
    std::vector<double> d(10007);
    for (u64 n = 0; n < d.size(); ++n) d[n] = Rng{7}.normal(n);
    return d;
  }();
  return draws[(i + what * 2503) % draws.size()];
}

/// Runs a case and compares every `step`-th element, and all that lies between c's rows.
inline void expect_pinned_order(const Entry& entry, const Case& t, i64 step = 1) {
  Problem p(t, normal);
  // f64 sums may end in a shorter type: one rounding, which get/set would do in two for bf16.
  Matrix want = p.c;
  for (i64 i = 0; i < t.s.m * t.s.n; i += step) {
    const i64 m = i / t.s.n, n = i % t.s.n;
    want.set(m, n, p.expected(m, n));
  }
  Queue q(2);
  p.run(entry.product, q);
  i64 wrong = 0;
  for (i64 i = 0; i < t.s.m * t.s.n; i += step)
    wrong += p.c.get(i / t.s.n, i % t.s.n) != want.get(i / t.s.n, i % t.s.n);
  EXPECT_EQ(wrong, 0) << entry.name << " M " << t.s.m << " N " << t.s.n << " K " << t.s.k
                      << " format " << numerics::info(t.format).name << " along "
                      << static_cast<int>(t.along_a) << static_cast<int>(t.along_b) << " c "
                      << static_cast<int>(t.c_type) << " add " << t.add << " bias " << t.bias
                      << " gap " << t.gap << " scales " << t.scales_a.there << " "
                      << t.scales_a.outer << " x " << t.scales_a.depth << ", " << t.scales_b.there
                      << " " << t.scales_b.outer << " x " << t.scales_b.depth;
  for (i64 r = 0; r + 1 < t.s.m; ++r) {
    const std::byte* gap = p.c.bytes.data() + (r * p.c.stride + t.s.n) * size_of(t.c_type);
    for (i64 i = 0; i < t.gap * size_of(t.c_type); ++i) ASSERT_EQ(gap[i], std::byte{0x5a});
  }
}

}  // namespace
}  // namespace lathe::kernels
