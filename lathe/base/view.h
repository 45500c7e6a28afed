#pragma once
// The element types and the two borrowed windows on matrices that everything passes around. Small
// enough for files of one instruction set to include: no exceptions, nothing that is not inlined.

#include <cstddef>
#include <cstdint>

namespace lathe {

using i32 = std::int32_t;
using i64 = std::int64_t;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

/// The upper half of a float: 8 exponent bits, 7 stored mantissa bits. Storage only.
struct bf16 {
  u16 bits;
};

/// How the elements of a tensor lie in memory. What they *mean* in a product is a numerics::Format.
enum class DType : u8 { f64, f32, bf16, int32, uint8 };

#define LATHE_INLINE [[gnu::always_inline]] inline

/// Bytes of one element.
LATHE_INLINE constexpr i64 size_of(DType t) {
  return t == DType::f64 ? 8 : t == DType::bf16 ? 2 : t == DType::uint8 ? 1 : 4;
}

/// The DType of a C++ type.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<i32> {
  static constexpr DType value = DType::int32;
};
template <>
struct DTypeOf<u8> {
  static constexpr DType value = DType::uint8;
};

/// A borrowed window on a row-major matrix whose element type is data. `stride` is the distance
/// between the starts of two rows, in elements. `data` is null in a dry run.
struct Tensor {
  void* data = nullptr;
  DType type = DType::f32;
  i64 rows = 0, cols = 0, stride = 0;

  /// Start of row r as T. T must be the tensor's type: the caller has switched on it.
  template <class T>
  LATHE_INLINE T* row(i64 r) const {
    return static_cast<T*>(data) + r * stride;
  }
  LATHE_INLINE bool empty() const { return rows == 0 || cols == 0; }
  LATHE_INLINE i64 size() const { return rows * cols; }
  /// Bytes from the first to past the last element, rows being contiguous.
  LATHE_INLINE i64 bytes() const { return rows * cols * size_of(type); }
  /// Rows [begin, begin + count).
  LATHE_INLINE Tensor slice_rows(i64 begin, i64 count) const {
    Tensor t = *this;
    if (t.data) t.data = static_cast<std::byte*>(data) + begin * stride * size_of(type);
    t.rows = count;
    return t;
  }
  /// Columns [begin, begin + count): the stride stays.
  LATHE_INLINE Tensor slice_cols(i64 begin, i64 count) const {
    Tensor t = *this;
    if (t.data) t.data = static_cast<std::byte*>(data) + begin * size_of(type);
    t.cols = count;
    return t;
  }
};

/// The same, for reading. Every Tensor turns into one.
struct ConstTensor {
  const void* data = nullptr;
  DType type = DType::f32;
  i64 rows = 0, cols = 0, stride = 0;

  ConstTensor() = default;
  LATHE_INLINE ConstTensor(const Tensor& t)  // NOLINT: implicit, as T* turns into const T*
      : data(t.data), type(t.type), rows(t.rows), cols(t.cols), stride(t.stride) {}

  template <class T>
  LATHE_INLINE const T* row(i64 r) const {
    return static_cast<const T*>(data) + r * stride;
  }
  LATHE_INLINE bool empty() const { return rows == 0 || cols == 0; }
  LATHE_INLINE i64 size() const { return rows * cols; }
  LATHE_INLINE i64 bytes() const { return rows * cols * size_of(type); }
  LATHE_INLINE ConstTensor slice_rows(i64 begin, i64 count) const {
    ConstTensor t = *this;
    if (t.data) t.data = static_cast<const std::byte*>(data) + begin * stride * size_of(type);
    t.rows = count;
    return t;
  }
  LATHE_INLINE ConstTensor slice_cols(i64 begin, i64 count) const {
    ConstTensor t = *this;
    if (t.data) t.data = static_cast<const std::byte*>(data) + begin * size_of(type);
    t.cols = count;
    return t;
  }
};

/// A contiguous window on memory that the caller holds.
template <class T>
LATHE_INLINE Tensor tensor(T* data, i64 rows, i64 cols) {
  return {data, DTypeOf<T>::value, rows, cols, cols};
}
template <class T>
LATHE_INLINE ConstTensor tensor(const T* data, i64 rows, i64 cols) {
  return Tensor{const_cast<T*>(data), DTypeOf<T>::value, rows, cols, cols};
}

}  // namespace lathe
