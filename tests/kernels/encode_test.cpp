#include "lathe/kernels/encode.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "tests/kernels/encode_case.h"
#include "tests/kernels/row_case.h"

namespace lathe::kernels {
namespace {

constexpr Format kElements[] = {Format::f32,  Format::bf16, Format::tf32,     Format::fp16,
                                Format::e4m3, Format::e5m2, Format::e4m3fnuz, Format::e5m2fnuz,
                                Format::e2m3, Format::e3m2, Format::e2m1,     Format::mxint8,
                                Format::hif8};
constexpr Format kMxElements[] = {Format::e4m3, Format::e5m2, Format::e2m3,
                                  Format::e3m2, Format::e2m1, Format::mxint8};
constexpr Tie kTies[] = {Tie::even, Tie::away, Tie::stochastic};
constexpr Along kBoth[] = {Along::cols, Along::rows};
constexpr Draws kDraws{.seed = 11, .stream = u64{5} << 33 | 3, .first_row = 6};

Matrix normal(DType type, i64 R, i64 C, i64 gap = 0, double scale = 1) {
  Matrix x(type, R, C, gap);
  return x.fill(static_cast<u64>(R * 1000 + C), scale);
}

/// f(e) for every scaling, format and rounding that go together.
template <class F>
void for_encodings(const F& f) {
  for (const Tie tie : kTies) {
    for (const Format format : kElements)
      for (const Scaling s : {Scaling::none, Scaling::current, Scaling::delayed, Scaling::row})
        f(Encoding{.format = format, .scaling = s, .rounding = tie});
    f(Encoding{.format = Format::hif8, .scaling = Scaling::shift, .rounding = tie});
    f(Encoding{.format = Format::e4m3, .scaling = Scaling::tile, .rounding = tie});
    f(Encoding{.format = Format::e2m1, .scaling = Scaling::nvfp4, .rounding = tie});
    f(Encoding{.format = Format::s1p2, .scaling = Scaling::hif4, .rounding = tie});
    for (const Format format : kMxElements)
      f(Encoding{.format = format, .scaling = Scaling::mx, .rounding = tie});
  }
}

TEST(Encode, IsTheScalarReferenceInEveryFormatScalingAndRounding) {
  for_encodings([](const Encoding& e) {
    for (const Along along : kBoth)
      for (const DType type : {kF32, kBf16}) {
        expect_right(normal(type, 35, 131, 1), e, along, kDraws, 3);
        expect_right(normal(type, 131, 21, 0, 30), e, along, kDraws);
      }
  });
}

}  // namespace
}  // namespace lathe::kernels
