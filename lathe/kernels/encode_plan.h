#pragma once
// What encoding a tensor comes down to, worked out once a call and by the same code for every back
// end: the lattice that elements are rounded to, how the work is cut, and the scale that the whole
// tensor shares.

#include "lathe/base/view.h"
#include "lathe/kernels/encode.h"
#include "lathe/kernels/gemm.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"

namespace lathe::kernels {

/// Work is done on panels of this many columns: a block of stochastic bits, and a whole number of
/// blocks of every kind. Panels start at multiples of it.
inline constexpr i64 kPanelCols = 128, kPanelRows = 128;

/// How the values of a format lie.
enum class Grid : u8 {
  lattice,  // multiples of 2^(e - m) in the binade of 2^e, of the lowest binade's below it
  half,     // the same, but what overflows becomes an infinity (FP16)
  whole,    // a lattice with a limit of its own below zero (two's complement)
  product,  // the same, for elements that are products of more bits than a float has (HiF4)
  tapered,  // HiF8: m depends on e
  bits,     // floats without their lowest bits
};

/// NVFP4's element factors by the upper bits of a block's scale: entry 0 is of zero, entry i of the
/// float with bits (kFirstInverse + i) << 20.
inline constexpr u32 kFirstInverse = 943, kInverses = 144;

struct EncodePlan {
  numerics::Encoding encoding;
  Along along = Along::cols;
  DType storage = DType::bf16;  // of codes

  Grid grid = Grid::lattice;
  float lowest = 1;  // the smallest binade with a lattice of its own
  float step = 1;    // 2^(23 - m)
  float top = 1;     // limits of magnitudes, above and below zero
  float bottom = 1;
  float zero = 0;           // added to all: -0 keeps the sign of zero, +0 drops it
  u32 cut = 0;              // Grid::bits: how many are cut off
  u32 largest_bits = 0;     // and those of the largest value
  bool infinities = false;  // stay, and are what overflows becomes

  float largest = 1;     // of the format, as scales use it
  float reciprocal = 1;  // fl(1 / largest)
  u32 top_exponent = 0;  // floor(log2 largest)
  int mantissa = 0;
  i64 block = 0;           // elements that share a scale; 0: no scales of blocks
  i64 height = 16;         // rows of a panel: whole blocks and whole transforms
  float room = 1;          // Encoding::head_room
  float inverse_room = 1;  // fl(1 / room)

  // Of the whole tensor, from set_tensor_scale:
  float multiplier = 1;    // of elements
  float decode = 1;        // what products multiply by
  float block_factor = 1;  // NVFP4: what a block's amax is multiplied by
  float inverses[kInverses] = {};

  alignas(64) float ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
};

EncodePlan plan_encode(const numerics::Encoding& e, Along along);

/// The scale of the tensor from its amax or, with Scaling::delayed, from what its history says.
/// With MXCSR as a program starts.
void set_tensor_scale(EncodePlan& p, float amax, float delayed);

/// Vectors that row scaling has memory for.
inline constexpr i64 kMostVectors = i64{1} << 21;
void check_vectors(i64 count);

/// Limits twice as wide, so that what would saturate can be told from what does not.
void widen_limits(EncodePlan& p);

/// EncodeKernels::update_history.
void update_history(Queue&, const Tensor& history, numerics::Format format, int margin,
                    bool most_recent) noexcept;

}  // namespace lathe::kernels
