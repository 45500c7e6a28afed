#pragma once
// Shapes, data and comparisons for the tests of attention.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/attention.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/kernels/pointwise.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"

namespace lathe::kernels {

struct Shape {
  i64 batch, time, heads, kv_heads, width, window, documents;

  i64 qkv() const { return (heads + 2 * kv_heads) * width; }
  i64 rows() const { return batch * time; }
  AttentionShape attention(numerics::Format f, const numerics::Encoding& weights = {}) const {
    return {heads, kv_heads, width, window, f, weights};
  }
  /// Documents of uneven lengths, different in every row of the batch.
  std::vector<i32> starts() const {
    std::vector<i32> at(static_cast<std::size_t>(rows()), 0);
    for (i64 b = 0; b < batch; ++b) {
      i64 start = 0, next = documents > 1 ? time / documents - 3 + 2 * b : time;
      for (i64 t = 0; t < time; ++t) {
        if (t == next) {
          start = t;
          next += time / documents + 5;
        }
        at[static_cast<std::size_t>(b * time + t)] = static_cast<i32>(start);
      }
    }
    return at;
  }
};

inline std::string describe(const Shape& s) {
  return fmt::format("B {} T {} H {} Hkv {} D {} window {} documents {}", s.batch, s.time, s.heads,
                     s.kv_heads, s.width, s.window, s.documents);
}

template <class T>
T from_double(double x) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_bf16(static_cast<float>(x));
  else
    return static_cast<T>(x);
}
template <class T>
double to_double(T x) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_float(x);
  else
    return x;
}

template <class T>
std::vector<T> normals(i64 n, u64 seed) {
  const Rng rng{seed};
  std::vector<T> x(static_cast<std::size_t>(n));
  for (i64 i = 0; i < n; ++i)
    x[static_cast<std::size_t>(i)] = from_double<T>(rng.normal(static_cast<u64>(i)));
  return x;
}

template <class T>
using Master = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Everything that forward and backward read and write.
template <class T>
struct Trial {
  Shape shape;
  std::vector<i32> starts;
  std::vector<T> qkv, dout, out, dqkv;
  std::vector<Master<T>> lse;

  explicit Trial(const Shape& s, u64 seed = 1)
      : shape(s),
        starts(s.starts()),
        qkv(normals<T>(s.rows() * s.qkv(), seed)),
        dout(normals<T>(s.rows() * s.heads * s.width, seed + 1)),
        out(dout.size()),
        dqkv(qkv.size()),
        lse(static_cast<std::size_t>(s.rows() * s.heads)) {}

  void compute(const Kernels& k, Queue& q, numerics::Format f,
               const numerics::Encoding& weights = {}) {
    const i64 rows = shape.rows(), width = shape.heads * shape.width;
    const Places at{starts.data(), shape.batch, shape.time};
    const AttentionShape s = shape.attention(f, weights);
    const Tensor o = tensor(out.data(), rows, width), l = tensor(lse.data(), rows, shape.heads);
    const Tensor x = tensor(qkv.data(), rows, shape.qkv());
    k.attention.forward(q, o, l, x, at, s);
    k.attention.backward(q, tensor(dqkv.data(), rows, shape.qkv()),
                         tensor(dout.data(), rows, width), o, l, x, at, s);
  }
};

template <class T>
auto bits_of(T x) {
  using Bits =
      std::conditional_t<sizeof(T) == 2, u16, std::conditional_t<sizeof(T) == 4, u32, u64>>;
  return std::bit_cast<Bits>(x);
}

/// Bits, NaN being equal to NaN.
template <class T>
::testing::AssertionResult same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = to_double(a[i]), y = to_double(b[i]);
    if (std::isnan(x) && std::isnan(y)) continue;
    if (bits_of(a[i]) != bits_of(b[i]))
      return ::testing::AssertionFailure() << "element " << i << ": " << x << " and " << y;
  }
  return ::testing::AssertionSuccess();
}

inline const Shape kShapes[] = {
    {1, 1, 1, 1, 8, 0, 1},     {2, 7, 2, 2, 8, 0, 1},     {1, 32, 2, 1, 20, 0, 1},
    {2, 64, 2, 2, 64, 0, 1},   {2, 96, 4, 2, 20, 0, 3},   {1, 160, 4, 1, 64, 0, 4},
    {1, 128, 1, 1, 128, 0, 2}, {2, 160, 2, 2, 64, 40, 1}, {1, 150, 4, 2, 33, 17, 3},
    {1, 288, 2, 1, 64, 0, 2},  {1, 300, 1, 1, 8, 100, 1},
};

/// Calls f with every table that runs here.
template <class F>
void for_tables(const F& f) {
  for (const Candidate& c : candidates()) {
    if (!c.why_not.empty()) continue;
    SCOPED_TRACE(c.table->name);
    f(*c.table);
  }
}

}  // namespace lathe::kernels
