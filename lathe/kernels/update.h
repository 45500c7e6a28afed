#pragma once
// What the optimizer does to one parameter.

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/encode.h"

namespace lathe::kernels {

/// AdamW (Loshchilov and Hutter, 2019) with decoupled decay. Scalars are computed by the caller in
/// f64 and rounded once.
struct AdamW {
  double lr, beta1, beta2, eps, weight_decay;
  double correction1, correction2;  // 1 - beta^step
  double grad_scale;                // multiplies every gradient: 1 / tokens, times the clip factor
};

/// How a moment lies between two steps. docs/optimizer.md has the formulas.
enum class MomentKind : u8 {
  plain,     // values in the type that is computed in: f32, f64
  bf16,      // values in bf16, rounded stochastically
  dynamic,   // values in u8: codes of a dynamic map (update_tables.h), of the first moment the
             // signed one; scales (1, blocks) f32: the largest magnitude of each kMomentBlock
             // elements
  expanded,  // values in u8: E4M3 of sign(x) (|x| / centre)^k / scale; scales (groups, 3) f32:
             // scale, k and centre of each kMomentGroup elements (COAT, 2410.19313)
};
inline constexpr i64 kMomentBlock = 256, kMomentGroup = 128;

/// All bytes zero are moments of zero, whatever the kind.
struct Moment {
  MomentKind kind = MomentKind::plain;
  Tensor values;  // the parameter's shape
  Tensor scales = {};
};

struct UpdateKernels {
  /// g = grad * grad_scale; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
  /// w = w - lr (weight_decay w + (m / correction1) / (sqrt(v / correction2) + eps)).
  /// All of one shape, rows without gaps. w and grad f32 or bf16, moments of any kind; or all f64,
  /// moments plain. Computed in f32 (f64). A bf16 w is rounded stochastically: up with probability
  /// (low 16 bits of the f32) / 2^16. Bits are those of d's streams d.stream for w, + 1 for m, + 2
  /// for v; element (r, c) is number r * cols + c. Moments in codes are rounded to nearest, save
  /// that a positive v never becomes 0, neither in its code nor when that is read (the smallest
  /// normal float is what it is at least), and that m is rounded towards zero where the gradient is
  /// 0.
  void (*adamw)(Queue&, const Tensor& w, const Moment& m, const Moment& v, const ConstTensor& grad,
                const AdamW& a, const Draws& d) noexcept;
  /// sum[0] = sum of squares of x in f64, in a fixed order that depends on x's shape alone; NaN or
  /// Inf where x holds any. sum: (1, 1) f64.
  void (*sum_squares)(Queue&, const Tensor& sum, const ConstTensor& x) noexcept;
};

}  // namespace lathe::kernels
