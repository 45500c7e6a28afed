#pragma once
// One parameter with moments of any kind, and what its codes say.

#include <cmath>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/update.h"
#include "lathe/kernels/update_tables.h"
#include "tests/kernels/row_case.h"

namespace lathe::kernels {

inline constexpr MomentKind kKinds[]{MomentKind::plain, MomentKind::bf16, MomentKind::dynamic,
                                     MomentKind::expanded};

/// Storage of a moment of zero.
struct StoredMoment {
  MomentKind kind;
  Matrix values, scales;

  StoredMoment(MomentKind k, i64 R, i64 C)
      : kind(k),
        values(type_of(k), R, C),
        scales(kF32, scale_rows(k, R * C), scale_cols(k, R * C)) {}
  Moment view() { return {kind, values.view(), scales.view()}; }

  static DType type_of(MomentKind k) {
    return k == MomentKind::plain ? kF32 : k == MomentKind::bf16 ? kBf16 : DType::uint8;
  }
  static i64 scale_rows(MomentKind k, i64 size) {
    return k == MomentKind::expanded ? (size + kMomentGroup - 1) / kMomentGroup : 1;
  }
  static i64 scale_cols(MomentKind k, i64 size) {
    if (k == MomentKind::expanded) return 3;
    return k == MomentKind::dynamic ? (size + kMomentBlock - 1) / kMomentBlock : 1;
  }

  u8 code(i64 i) { return values.view().row<u8>(0)[i]; }
  /// Element i in double, by the definition. `map`: of a dynamic moment.
  double decoded(i64 i, const CodeTable& map) {
    if (kind == MomentKind::plain || kind == MomentKind::bf16)
      return values.at(i / values.cols(), i % values.cols());
    if (kind == MomentKind::dynamic) return map.value[code(i)] * scales.at(0, i / kMomentBlock);
    const i64 group = i / kMomentGroup;
    const double q = kE4m3.value[code(i)], size = std::fabs(q) * scales.at(group, 0);
    return q == 0 ? 0
                  : std::copysign(std::pow(size, 1 / scales.at(group, 1)) * scales.at(group, 2), q);
  }
};

struct StoredParameter {
  Matrix w, grad;
  StoredMoment m, v;

  StoredParameter(i64 R, i64 C, MomentKind kind, DType weights = kF32, DType gradients = kF32)
      : w(weights, R, C), grad(gradients, R, C), m(kind, R, C), v(kind, R, C) {}

  void step(const Kernels& k, Queue& q, const AdamW& a, const Draws& d = {}) {
    k.update.adamw(q, w.view(), m.view(), v.view(), grad.view(), a, d);
  }
  std::vector<Matrix> outputs() const { return {w, m.values, m.scales, v.values, v.scales}; }
};

/// Under it m becomes the gradient, v its square, and no weight moves.
inline constexpr AdamW kStoreGradient{.lr = 0,
                                      .beta1 = 0,
                                      .beta2 = 0,
                                      .eps = 1e-8,
                                      .weight_decay = 0,
                                      .correction1 = 1,
                                      .correction2 = 1,
                                      .grad_scale = 1};

/// Step n, 1-based, at the usual settings.
inline AdamW usual_step(i64 n, double lr = 1e-3) {
  const double t = static_cast<double>(n);
  return {.lr = lr,
          .beta1 = 0.9,
          .beta2 = 0.95,
          .eps = 1e-8,
          .weight_decay = 0,
          .correction1 = 1 - std::pow(0.9, t),
          .correction2 = 1 - std::pow(0.95, t),
          .grad_scale = 1};
}

}  // namespace lathe::kernels
