#pragma once
// How published schemes choose the scales of low-precision tensors: the formulas, with every
// rounding where the scheme has it. What a faster encoder is held against. "amax" is the largest
// magnitude of a tensor, row, tile or block, as amax() takes it.
//
// Single precision here is the processor's, subnormals included: call with MXCSR as a program
// starts, not from a piece of Queue's work, where subnormals count as zero.
//
// Sources: OCP Microscaling Formats v1.0; NVIDIA TransformerEngine (delayed, current, MXFP8 and
// NVFP4 recipes); DeepSeek-V3 (arXiv 2412.19437) and DeepGEMM.

#include <array>
#include <span>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"

namespace lathe::numerics {

/// The largest magnitude; NaN when any value is NaN, 0 of nothing.
float amax(std::span<const float> values);

/// What an amax that is infinite or NaN makes of a block.
enum class BadAmax : u8 {
  strict,  // either: the scale is NaN, so every value of the block is
  te,      // as TransformerEngine: NaN the same; infinity: the largest scale, infinities saturate
};

// MX blocks.

/// Codes are clamped to 0..254; an amax of zero gives 0.
u8 mx_scale(MxRule rule, Format element, float amax, BadAmax bad = BadAmax::strict);

// NVFP4: E4M3 scales of blocks of 16 under one FP32 scale of the tensor. All in FP32.

struct Nvfp4Tensor {
  float amax;  // of the tensor; decoding multiplies by amax / (6 * 448), by 1 where it is bad or 0
  float encode;  // S_enc = min(fl(2688 / amax), FLT_MAX); 1 where that is 0, or amax is bad or 0
  float decode;  // S_dec = fl(1 / S_enc)
};
Nvfp4Tensor nvfp4_tensor(float amax);

/// The E4M3 code: of min(amax fl(S_enc fl(1 / 6)), 448).
u8 nvfp4_scale(const Nvfp4Tensor& t, float block_amax, BadAmax bad = BadAmax::strict);

/// What elements are multiplied by: min(fl(1 / fl(scale S_dec)), FLT_MAX); NaN for a scale of NaN.
float nvfp4_inverse(const Nvfp4Tensor& t, u8 scale);

/// x times the signs of hadamard_sign, times the Sylvester matrix of order 16, over 4, in FP64,
/// terms added in ascending order. Its transpose undoes it, so products of two operands that both
/// went through it along their summed dimension are unchanged.
std::array<double, 16> random_hadamard(std::span<const float, 16> x);

// Tiles of DeepSeek-V3: 1 x 128 of activations and gradients, 128 x 128 of weights, in E4M3.

struct TileScale {
  float
      decode;  // fl(max(amax, 1e-4) / 448), or that rounded up to a power of two; NaN for bad amax
  float encode;  // fl(1 / decode): elements are multiplied by it
};
TileScale tile_scale(float amax, bool power_of_two = false);

// One scale a tensor.

struct CurrentOptions {
  float epsilon = 0;          // amax below it counts as it
  bool power_of_two = false;  // the scale is rounded down to one
};
/// Elements are multiplied by fl(largest / amax), at most FLT_MAX; 1 where amax is 0 or bad.
float current_scale(Format element, float amax, const CurrentOptions& o = {});

/// A power of two for HiF8: puts the largest magnitude at 2^3..2^4, the top of the binades that
/// have three mantissa bits, so that the seven below it do. 1 where amax is 0 or bad. The HiF8
/// paper says only that the factor is a power of two taken from the amax; which one is ours.
float hif8_scale(float amax);

/// Delayed scaling: the scale of a step comes from the amaxes of the steps before it.
struct DelayedOptions {
  int history = 1024;        // steps that have a say, 1 or more
  int margin = 0;            // binades of head-room
  bool most_recent = false;  // the last amax instead of the largest
  bool operator==(const DelayedOptions&) const = default;
};
struct DelayedScale {
  std::vector<float> history;  // [0]: the step's own; [1..]: those before it, oldest first
  float scale = 1;             // elements are multiplied by it

  explicit DelayedScale(const DelayedOptions& o);
  /// Ends a step: largest 2^-margin / amax of the window, at most FLT_MAX; kept as it was where
  /// that amax is 0, infinite or NaN. The largest ignores NaNs; an infinity stays in the window
  /// until it leaves it. An amax of exactly zero does not enter the history.
  void update(Format element, float amax, const DelayedOptions& o);
};

}  // namespace lathe::numerics
