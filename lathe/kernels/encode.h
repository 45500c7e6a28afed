#pragma once
// From activations, gradients and weights to operands of products: values are rounded to those of a
// low-precision format and stored in a type that holds them exactly (numerics/format.h), so that a
// product reads them as they are. Scales that are powers of two, or short enough, are part of the
// stored values; the others are written beside them (numerics::scale_shape) and multiplied onto
// sums by the product.
//
// What each scaling computes is pinned by numerics/scale.h and numerics/block.h, save that here
// subnormals count as zero and stored values below 2^-126 are zero, as in every kernel.

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/gemm.h"
#include "lathe/numerics/encoding.h"

namespace lathe::kernels {

/// Where stochastic rounding takes its bits from: a function of the element's place in the whole
/// batch alone. Element (r, c) of x is number (first_row + r) * round_up(cols, 128) + c of the
/// stream. Of number e, block b = e / 128, i = e % 128: the counter is (16 b + i % 16) of
/// Rng{seed, Draw::rounding, stream}, the word i / 32, its lower half where i / 16 is even, else
/// the upper: 16 bits.
struct Draws {
  u64 seed = 0, stream = 0;
  i64 first_row = 0;
};

/// A scale's memory: f32 (1, 1 + history): [0] the scale elements are multiplied by, [1] the
/// largest amax of the step so far, [2..] those of the steps before, oldest first
/// (numerics::DelayedScale).
inline constexpr i64 kHistoryScale = 0, kHistoryNow = 1;

/// What encoding does to a tensor, as sums over its elements: columns of an f64 tensor (1, 7).
inline constexpr i64 kSignal = 0,  // sum of x^2, of x after its Hadamard transform
    kNoise = 1,                    // sum of (x - x^)^2, x^ being what products see, scales included
    kElements = 2,                 // how many
    kNonzero = 3,                  // x != 0
    kUnderflow = 4,                // x != 0 and x^ == 0
    kSaturated = 5,   // in its block's scale x rounds to more than the format's largest
    kLargest = 6,     // the largest |x|
    kFidelities = 7;  // how many columns

struct EncodeKernels {
  /// codes (the shape of x, the format's storage type) = x in the encoding e, whose blocks and
  /// transforms run along `along`; scales (numerics::scale_shape of x's vectors) = what products
  /// multiply by. x: f32 or bf16; codes and x may have any stride. history: with Scaling::delayed
  /// as above, its amax is raised; else empty. Blocks at the edges may be shorter: as if filled up
  /// with zeros; x may be empty. Scaling::row takes 2^21 vectors at most. A Hadamard transform is
  /// taken of x before anything else, in f32 by butterflies of strides 1, 2, 4, … after the signs
  /// of numerics::hadamard_sign, and divided by the root of its order at the end; its blocks must
  /// be whole.
  void (*encode)(Queue&, const Tensor& codes, const Tensor& scales, const ConstTensor& x,
                 const numerics::Encoding& e, Along along, const Draws& d,
                 const Tensor& history) noexcept;
  /// Adds to sums (kLargest: raises) what encode, called with the same arguments, would do to x.
  /// Sums are taken in f64 in an order that depends on x's shape alone. history stays as it is.
  void (*fidelity)(Queue&, const Tensor& sums, const ConstTensor& x, const numerics::Encoding& e,
                   Along along, const Draws& d, const Tensor& history) noexcept;
  /// Ends a step: history as numerics::DelayedScale::update makes it; [1] = 0.
  void (*update_history)(Queue&, const Tensor& history, numerics::Format format, int margin,
                         bool most_recent) noexcept;
};

}  // namespace lathe::kernels
