// Matrix products in plain C++: the order of sums that gemm.h pins, written out.

#include "lathe/kernels/gemm.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "lathe/base/error.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/gemm_scales.h"
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

/// Elements [begin, end) of both operands' vectors m and n. bf16: groups of 32, even and odd
/// elements apart.
float sum(bf16 /*type*/, const Operand& a, const Operand& b, i64 m, i64 n, i64 begin, i64 end,
          float acc) {
  for (i64 first = begin; first < end; first += kGroup) {
    float half[2] = {0, 0};
    for (i64 k = first; k < first + kGroup; ++k) {
      const bool inside = k < end;
      const float x = inside ? element<bf16>(a, m, k) : 0, y = inside ? element<bf16>(b, n, k) : 0;
      half[k % 2] = std::fma(x, y, half[k % 2]);
    }
    acc = acc + (half[0] + half[1]);
  }
  return acc;
}

/// f32 and f64: one element after the other.
template <class S>
S sum(S /*type*/, const Operand& a, const Operand& b, i64 m, i64 n, i64 begin, i64 end, S acc) {
  for (i64 k = begin; k < end; ++k) acc = std::fma(element<S>(a, m, k), element<S>(b, n, k), acc);
  return acc;
}

/// What belongs to element k of a vector.
float scale(const Operand& x, i64 outer, i64 k) {
  if (x.scales.empty()) return 1;
  const i64 row = x.scale_outer > 0 ? outer / x.scale_outer : 0;
  return x.scales.row<float>(row)[x.scale_depth > 0 ? k / x.scale_depth : 0];
}

template <class T, class S>
S scaled_sum(const Operand& a, const Operand& b, i64 m, i64 n, S acc) {
  const i64 depth = a.summed(), chunk = chunk_of_scales(a, b);
  if (chunk == 0) return sum(T{}, a, b, m, n, 0, depth, acc);
  for (i64 k = 0; k < depth; k += chunk) {
    const S part = sum(T{}, a, b, m, n, k, std::min(k + chunk, depth), S{0});
    acc = std::fma(part, static_cast<S>(scale(a, m, k)) * static_cast<S>(scale(b, n, k)), acc);
  }
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
      S acc = scaled_sum<T>(a, b, m, n, e.add ? read<S>(c, m, n) : S{0});
      if (!e.bias.empty()) acc = acc + e.bias.row<S>(0)[n];
      write(c, m, n, acc);
    }
  });
}

void product(Queue& q, const Tensor& c, const Operand& a, const Operand& b,
             const Epilogue& e) noexcept {
  for (const Operand* x : {&a, &b})
    CHECK(x->data.type == numerics::info(x->format).storage && x->data.type == a.data.type,
          "an operand in {} lies in another type than its own or its partner's",
          numerics::info(x->format).name);
  switch (a.data.type) {
    case DType::f64:
      return product_of<double, double>(q, c, a, b, e);
    case DType::f32:
      return product_of<float, float>(q, c, a, b, e);
    case DType::bf16:
      return product_of<bf16, float>(q, c, a, b, e);
    default:
      CHECK(false, "no product takes operands in {}", numerics::info(a.format).name);
  }
}

}  // namespace

void add_gemm(Kernels& k) { k.gemm.product = product; }

}  // namespace lathe::kernels::ref_impl
