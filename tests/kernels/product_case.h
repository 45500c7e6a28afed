#pragma once
// One product with all its operands, and what it must give by the order that gemm.h pins,
// evaluated the plain way.

#include <xmmintrin.h>

#include <cmath>
#include <vector>

#include "lathe/kernels/gemm.h"
#include "lathe/kernels/lanes.h"

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

struct Case {
  Shape s;
  Format format = Format::bf16;
  Along along_a = Along::cols, along_b = Along::cols;
  DType c_type = DType::f32;
  bool add = false, bias = false;
  i64 gap = 0;
};

inline DType master(Format f) { return f == Format::f64 ? DType::f64 : DType::f32; }

/// The operands of a case; `draw(what, index)` gives the elements.
struct Problem {
  Case t;
  Matrix a, b, bias, c;

  template <class F>
  Problem(const Case& of, const F& draw)
      : t(of),
        a(matrix(of, of.along_a, of.s.m)),
        b(matrix(of, of.along_b, of.s.n)),
        bias(master(of.format), 1, of.s.n, 0),
        c(of.c_type, of.s.m, of.s.n, of.gap) {
    a.fill([&](u64 i) { return draw(0, i); });
    b.fill([&](u64 i) { return draw(1, i); });
    bias.fill([&](u64 i) { return draw(2, i); });
    c.fill([&](u64 i) { return draw(3, i); });
  }
  static Matrix matrix(const Case& t, Along along, i64 outer) {
    const DType type = numerics::info(t.format).storage;
    return along == Along::cols ? Matrix(type, outer, t.s.k, t.gap)
                                : Matrix(type, t.s.k, outer, t.gap);
  }
  static double at(Matrix& x, Along along, i64 outer, i64 k) {
    return along == Along::cols ? x.get(outer, k) : x.get(k, outer);
  }

  void run(Product product, Queue& q) {
    Operand x, y;
    x.data = a.view();
    y.data = b.view();
    x.format = y.format = t.format;
    x.along = t.along_a;
    y.along = t.along_b;
    Epilogue e;
    e.add = t.add;
    if (t.bias) e.bias = bias.view();
    product(q, c.view(), x, y, e);
  }

  /// Element (m, n) of the result in the order that gemm.h pins, from c as it is now.
  double expected(i64 m, i64 n) {
    const FlushedSubnormals flushed;
    if (t.format == Format::f64) return in_order<double>(m, n);
    if (t.format == Format::f32) return static_cast<double>(in_order<float>(m, n));
    auto acc = t.add ? static_cast<float>(c.get(m, n)) : 0.0f;
    for (i64 first = 0; first < t.s.k; first += 32) {
      float e = 0, o = 0;
      for (i64 k = first; k < first + 32; k += 2) {
        e = std::fma(element(a, t.along_a, m, k), element(b, t.along_b, n, k), e);
        o = std::fma(element(a, t.along_a, m, k + 1), element(b, t.along_b, n, k + 1), o);
      }
      acc = acc + (e + o);
    }
    if (t.bias) acc = acc + static_cast<float>(bias.get(0, n));
    return static_cast<double>(acc);
  }
  float element(Matrix& x, Along along, i64 outer, i64 k) {
    return k < t.s.k ? static_cast<float>(at(x, along, outer, k)) : 0.0f;
  }
  template <class S>
  S in_order(i64 m, i64 n) {
    S acc = t.add ? static_cast<S>(c.get(m, n)) : S{0};
    for (i64 k = 0; k < t.s.k; ++k)
      acc = std::fma(static_cast<S>(at(a, t.along_a, m, k)), static_cast<S>(at(b, t.along_b, n, k)),
                     acc);
    if (t.bias) acc = acc + static_cast<S>(bias.get(0, n));
    return acc;
  }
};

}  // namespace
}  // namespace lathe::kernels
