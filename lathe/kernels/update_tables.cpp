#include "lathe/kernels/update_tables.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "lathe/base/view.h"

namespace lathe::kernels {

namespace {

constexpr int kDecades = 7;
constexpr double kDecade[kDecades] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};

/// tree = thresholds, ascending, in the order of a balanced tree.
constexpr void plant(CodeTable& t, const float (&thresholds)[255]) {
  for (int node = 1, level = 1; node < 256; ++node) {
    if (node == 2 * level) level = node;
    const int width = 256 / level;
    t.tree[node] = thresholds[(node - level) * width + width / 2 - 1];
  }
}

constexpr CodeTable dynamic_map(bool with_sign) {
  CodeTable t{};
  int n = 0;
  const auto add = [&](double x) { t.value[n++] = static_cast<float>(x); };
  add(0);
  add(1);
  for (int i = 0; i < kDecades; ++i) {
    const int parts = 1 << (with_sign ? i : i + 1);
    for (int j = 0; j < parts; ++j) {
      const double x = kDecade[i] * (0.1 + 0.9 * (j + 0.5) / parts);
      add(x);
      if (with_sign) add(-x);
    }
  }
  std::sort(t.value, t.value + 256);
  float middle[255] = {};
  for (int c = 0; c < 255; ++c) middle[c] = (t.value[c] + t.value[c + 1]) / 2;
  plant(t, middle);
  t.zero = with_sign ? 127 : 0;
  return t;
}

constexpr float e4m3_value(int magnitude) {
  if (magnitude == 127) return 448;
  const int exponent = magnitude >> 3, mantissa = magnitude & 7;
  const int shift = exponent == 0 ? 1 : exponent;
  const int whole = exponent == 0 ? mantissa : 8 + mantissa;
  return static_cast<float>(whole) * static_cast<float>(1 << shift) / 1024;
}

constexpr CodeTable e4m3() {
  CodeTable t{};
  for (int c = 0; c < 128; ++c) {
    t.value[c] = e4m3_value(c);
    t.value[c + 128] = -e4m3_value(c);
  }
  float threshold[255] = {};
  for (float& x : threshold) x = std::numeric_limits<float>::infinity();
  for (int c = 0; c < 126; ++c) {
    const float middle = (t.value[c] + t.value[c + 1]) / 2;
    const u32 even = c % 2 == 0 ? 1 : 0;
    threshold[c] = std::bit_cast<float>(std::bit_cast<u32>(middle) + even);
  }
  plant(t, threshold);
  t.zero = 0;
  return t;
}

}  // namespace

constinit const CodeTable kSignedMap = dynamic_map(true), kUnsignedMap = dynamic_map(false),
                          kE4m3 = e4m3();

}  // namespace lathe::kernels
