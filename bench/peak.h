#pragma once
// What this machine's arithmetic reaches with all operands in registers, measured now.

#include "bench/timing.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/peak.h"

namespace lathe::bench {

using kernels::PeakLoop;

/// The loop over what the products of this machine's best table are made of.
inline const PeakLoop& peak_loop(bool bf16_operands) {
  const kernels::PeakKernels& peak = kernels::select("auto").peak;
  return bf16_operands ? peak.bf16 : peak.f32;
}

/// Operations a second on all threads of `q` together, right now: about a millisecond.
inline double measure_peak(Queue& q, const PeakLoop& loop, Time time) {
  constexpr int kRepeats = 16;
  const i64 pieces = q.threads() * kRepeats;
  const double begin = now(time);
  for_pieces(q, pieces, [&](i64, int) { loop.run(); });
  return static_cast<double>(pieces) * loop.operations / (now(time) - begin);
}

}  // namespace lathe::bench
