#pragma once
// The sums that say what encoding did to a tensor: per panel in sixteen lanes of f64, then over the
// panels in their order.

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/encode.h"
#include "lathe/kernels/encode_amax.h"
#include "lathe/kernels/encode_panel.h"
#include "lathe/kernels/encode_plan.h"
#include "lathe/kernels/encode_values.h"
#include "lathe/kernels/lanes.h"

namespace lathe::kernels {

/// Panels whose sums the shared memory holds, before what row scaling keeps there.
inline constexpr i64 kFidelityParts = kVectorScales / (kFidelities * sizeof(double));

/// kFidelities numbers a panel.
LATHE_INLINE double* fidelity_parts(Queue& q) { return reinterpret_cast<double*>(q.shared()); }

/// One element, whose code before limits and block scales is `measured`.
LATHE_INLINE void measure(double (&sum)[kFidelities][kLanes], i64 lane, float x, float measured,
                          i64 n, const Blocks& b, const EncodePlan& p) {
  const float unit = b.unit[n * b.unit_step];
  const float top = p.top * unit, bottom = -(p.bottom * unit);
  const bool above = measured > top, below = measured < bottom;
  float code = above ? top : below ? bottom : measured;
  if (p.infinities && (measured - measured) != 0) code = measured;
  const float stored = code * b.post[n * b.post_step];
  const double seen = static_cast<double>(stored) * b.decode[n * b.decode_step];
  const double wide = x, off = wide - seen;
  sum[kSignal][lane] += wide * wide;
  sum[kNoise][lane] += off * off;
  sum[kNonzero][lane] += wide != 0 ? 1 : 0;
  sum[kUnderflow][lane] += wide != 0 && seen == 0 ? 1 : 0;
  sum[kSaturated][lane] += above || below ? 1 : 0;
  const double size = wide < 0 ? -wide : wide;
  if (!(size <= sum[kLargest][lane])) sum[kLargest][lane] = size;
}

LATHE_INLINE void measure_panel(double* part, const PanelSpace& s, const PanelAt& at,
                                const Blocks& b, const EncodePlan& p) {
  double sum[kFidelities][kLanes] = {};
  for (i64 r = 0; r < at.rows; ++r)
    for (i64 c = 0; c < at.cols; ++c) {
      const i64 i = r * kPanelCols + c;
      measure(sum, c % kLanes, s.x[i], s.measured[i], b.entry(r, c), b, p);
    }
  for (i64 k = 0; k < kFidelities; ++k) {
    part[k] = 0;
    for (const double v : sum[k]) {
      if (k == kLargest)
        part[k] = v > part[k] || v != v ? v : part[k];
      else
        part[k] += v;
    }
  }
}

LATHE_INLINE void add_fidelity(const Tensor& sums, const double* parts, i64 panels) {
  double* total = sums.row<double>(0);
  for (i64 i = 0; i < panels; ++i, parts += kFidelities)
    for (i64 k = 0; k < kFidelities; ++k) {
      if (k == kLargest)
        total[k] = parts[k] > total[k] || parts[k] != parts[k] ? parts[k] : total[k];
      else
        total[k] += parts[k];
    }
}

}  // namespace lathe::kernels
