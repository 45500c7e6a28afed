// Matrix products in plain C++: the order of sums that gemm.h pins, written out.

#include "lathe/kernels/gemm.h"

#include <bit>
#include <cmath>

#include "lathe/base/error.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/kernels/tables.h"
#include "lathe/numerics/format.h"

namespace lathe::kernels::ref_impl {

namespace {

constexpr i64 kGroup = 32;  // elements of a sum that matrix hardware takes at once

LATHE_INLINE float widen(bf16 x) { return to_float(x); }
LATHE_INLINE float widen(float x) { return x; }
LATHE_INLINE double widen(double x) { return x; }

/// Element k of vector `outer` of an operand, in the type its products are taken in.
template <class T>
LATHE_INLINE auto element(const Operand& x, i64 outer, i64 k) {
  return widen(x.along == Along::cols ? x.data.row<T>(outer)[k] : x.data.row<T>(k)[outer]);
}

/// bf16: groups of 32, even and odd elements apart.
float sum(bf16 /*type*/, const Operand& a, const Operand& b, i64 m, i64 n, float acc) {
  const i64 depth = a.summed();
  for (i64 first = 0; first < depth; first += kGroup) {
    float half[2] = {0, 0};
    for (i64 k = first; k < first + kGroup; ++k) {
      const bool inside = k < depth;
      const float x = inside ? element<bf16>(a, m, k) : 0, y = inside ? element<bf16>(b, n, k) : 0;
      half[k % 2] = std::fma(x, y, half[k % 2]);
    }
    acc = acc + (half[0] + half[1]);
  }
  return acc;
}

/// f32 and f64: one element after the other.
template <class S>
S sum(S /*type*/, const Operand& a, const Operand& b, i64 m, i64 n, S acc) {
  for (i64 k = 0; k < a.summed(); ++k)
    acc = std::fma(element<S>(a, m, k), element<S>(b, n, k), acc);
  return acc;
}

/// Nearest float to x, or if x lies between floats the neighbour whose last bit is odd: rounding
/// that to any shorter type gives what rounding x at once would.
float round_to_odd(double x) {
  const float f = static_cast<float>(x);
  if (static_cast<double>(f) == x || std::isnan(x) || std::isinf(x)) return f;
  const u32 bits = std::bit_cast<u32>(f);
  if (bits & 1u) return f;
  // f is even and not x: x's other neighbour is odd, one step towards x.
  const bool outwards = std::fabs(x) > std::fabs(static_cast<double>(f));
  return std::bit_cast<float>(outwards ? bits + 1 : bits - 1);
}

template <class S>
S read(const Tensor& c, i64 m, i64 n) {
  if (c.type == DType::f64) return static_cast<S>(c.row<double>(m)[n]);
  if (c.type == DType::f32) return static_cast<S>(c.row<float>(m)[n]);
  return static_cast<S>(to_float(c.row<bf16>(m)[n]));
}

template <class S>
void write(const Tensor& c, i64 m, i64 n, S x) {
  if (c.type == DType::f64)
    c.row<double>(m)[n] = static_cast<double>(x);
  else if (c.type == DType::f32)
    c.row<float>(m)[n] = static_cast<float>(x);
  else
    c.row<bf16>(m)[n] = to_bf16(round_to_odd(static_cast<double>(x)));
}

/// T: the operands' elements; S: what sums are taken in.
template <class T, class S>
void product_of(Queue& q, const Tensor& c, const Operand& a, const Operand& b, const Epilogue& e) {
  for_pieces(q, c.rows, [&](i64 m, int /*worker*/) {
    for (i64 n = 0; n < c.cols; ++n) {
      S acc = sum(T{}, a, b, m, n, e.add ? read<S>(c, m, n) : S{0});
      if (!e.bias.empty()) acc = acc + e.bias.row<S>(0)[n];
      write(c, m, n, acc);
    }
  });
}

void product(Queue& q, const Tensor& c, const Operand& a, const Operand& b,
             const Epilogue& e) noexcept {
  switch (a.format) {
    case numerics::Format::f64:
      return product_of<double, double>(q, c, a, b, e);
    case numerics::Format::f32:
      return product_of<float, float>(q, c, a, b, e);
    case numerics::Format::bf16:
      return product_of<bf16, float>(q, c, a, b, e);
    default:
      CHECK(false, "no product takes operands in {}", numerics::info(a.format).name);
  }
}

}  // namespace

void add_gemm(Kernels& k) { k.gemm.product = product; }

}  // namespace lathe::kernels::ref_impl
