#pragma once
// Matrices of any element type with gaps between rows, and the two comparisons that every row
// kernel must stand: between tables, and between numbers of threads.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"

namespace lathe::kernels {

/// Owns exactly the bytes from its first to its last element, so that a sanitizer sees a step past
/// the end. `gap` elements lie between rows; they count in ==, so nothing may write there.
class Matrix {
 public:
  Matrix(DType type, i64 rows, i64 cols, i64 gap = 0)
      : type_(type),
        rows_(rows),
        cols_(cols),
        stride_(cols + gap),
        bytes_(static_cast<std::size_t>((rows * (cols + gap) - gap) * size_of(type))) {}

  /// Normal deviates times `scale`, a stream of their own for each `stream`; gaps are filled too.
  Matrix& fill(u64 stream, double scale = 1) {
    const Rng rng{7, Draw::init, stream};
    for (i64 i = 0; i < elements(); ++i) put(i, scale * rng.normal(static_cast<u64>(i)));
    return *this;
  }
  Matrix& fill_with(double value) {
    for (i64 i = 0; i < elements(); ++i) put(i, value);
    return *this;
  }

  Tensor view() { return {bytes_.data(), type_, rows_, cols_, stride_}; }
  double at(i64 r, i64 c) const {
    const i64 i = r * stride_ + c;
    if (type_ == DType::f64) return read<double>(i);
    if (type_ == DType::f32) return read<float>(i);
    return to_float(read<bf16>(i));
  }
  void set(i64 r, i64 c, double x) { put(r * stride_ + c, x); }
  i64 rows() const { return rows_; }
  i64 cols() const { return cols_; }
  bool operator==(const Matrix&) const = default;

 private:
  i64 elements() const { return static_cast<i64>(bytes_.size()) / size_of(type_); }
  template <class T>
  T read(i64 i) const {
    T x;
    std::memcpy(&x, bytes_.data() + i * size_of(type_), sizeof x);
    return x;
  }
  template <class T>
  void write(i64 i, T x) {
    std::memcpy(bytes_.data() + i * size_of(type_), &x, sizeof x);
  }
  void put(i64 i, double x) {
    if (type_ == DType::f64) return write(i, x);
    if (type_ == DType::f32) return write(i, static_cast<float>(x));
    write(i, to_bf16(x));
  }

  DType type_;
  i64 rows_, cols_, stride_;
  std::vector<std::byte> bytes_;
};

/// Calls kernels of a table and returns all that they wrote.
using Run = std::function<std::vector<Matrix>(const Kernels&, Queue&)>;

/// The bits of every table that this machine runs are those of ref().
inline void expect_same_in_every_table(const Run& run) {
  Queue q(1);
  const std::vector<Matrix> right = run(ref(), q);
  for (const Candidate& c : candidates()) {
    if (!c.why_not.empty()) continue;
    const std::vector<Matrix> got = run(*c.table, q);
    for (std::size_t i = 0; i < right.size(); ++i)
      EXPECT_TRUE(got[i] == right[i]) << c.table->name << ", output " << i;
  }
}

/// In every table, the bits for 2 and 4 threads are those for 1.
inline void expect_same_for_any_threads(const Run& run) {
  Queue one(1), two(2), four(4);
  for (const Candidate& c : candidates()) {
    if (!c.why_not.empty()) continue;
    const std::vector<Matrix> right = run(*c.table, one);
    for (Queue* q : {&two, &four}) {
      const std::vector<Matrix> got = run(*c.table, *q);
      for (std::size_t i = 0; i < right.size(); ++i)
        EXPECT_TRUE(got[i] == right[i])
            << c.table->name << ", " << q->threads() << " threads, output " << i;
    }
  }
}

/// Lengths about whole lanes, and the gaps and types that go with them.
inline constexpr i64 kLongest = 67;
inline constexpr DType kF32 = DType::f32, kBf16 = DType::bf16, kF64 = DType::f64;

/// The step of a derivative by complex step: f'(x) = Im f(x + ih) / h, with no difference in it, so
/// that h can be so small that its square is nothing.
inline constexpr double kStep = 1e-30;
/// What such a derivative may be off by, relative to the values at hand.
inline constexpr double kGradientBound = 1e-12;

}  // namespace lathe::kernels
