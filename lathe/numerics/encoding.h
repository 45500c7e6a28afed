#pragma once
// How one operand of a product is written down: its format, the scales that go with it, and how its
// elements are rounded. Data only, so that kernels of any instruction set may read it. The formulas
// behind each scaling are in scale.h and block.h; the kernels that apply them are in
// kernels/encode.h.

#include "lathe/base/view.h"
#include "lathe/numerics/format.h"

namespace lathe::numerics {

/// Which of the two neighbours of a value between them. "Nearest" is by value, whatever binade each
/// neighbour lies in; a value at least half a step above the largest overflows.
enum class Tie : u8 {
  even,        // nearest; a tie to the code whose last bit is zero
  away,        // nearest; a tie to the larger magnitude (HiF8's TA)
  stochastic,  // up with probability fraction, cut to Cast::random_bits bits
  hybrid,      // HiF8's HR, on the float whose bits begin the double's; see cast.cpp. HiF8 only.
};

/// Power-of-two scales of MX blocks. Codes are E8M0; value = decode(E8M0, code) * element.
enum class MxRule : u8 {
  floor,     // 2^(floor(log2 amax) - emax): OCP's; the largest elements may saturate
  ceil,      // the smallest 2^r with amax <= 2^(r + emax)
  even,      // floor, of the amax rounded to the element's mantissa first, half a step up
  round_up,  // the smallest 2^r with fl32(amax fl32(1 / largest)) <= 2^r: TransformerEngine's
};

/// What shares a scale, and of which kind it is.
enum class Scaling : u8 {
  none,     // elements as they are
  current,  // the tensor: FP32, from its own amax
  delayed,  // the tensor: FP32, from the amaxes of the steps before
  shift,    // the tensor: a power of two, from its own amax (HiF8)
  row,      // one vector of the product: FP32, from its own amax
  tile,     // 128 elements of a vector (or of 128 vectors): FP32 (DeepSeek-V3)
  mx,       // 32 elements of a vector: a power of two
  nvfp4,    // 16 elements of a vector (or of 16 vectors): E4M3, under an FP32 scale of the tensor
  hif4,     // 64 elements of a vector: E6M2 and two levels of flags
};

/// The sign that a random Hadamard transform gives element i before anything else: those of
/// TransformerEngine, which repeat every 16 elements.
constexpr int hadamard_sign(i64 i) { return (0xd7e8u >> (i % 16) & 1) != 0 ? -1 : 1; }

/// How one operand is written down before it is multiplied.
struct Encoding {
  Format format = Format::bf16;
  Scaling scaling = Scaling::none;
  Tie rounding = Tie::even;   // of elements; of HiF4 away or stochastic
  int hadamard = 0;           // order of the random Hadamard transform along the sum: 0, 16, 32, 64
  bool square = false;        // tile, nvfp4, mx: blocks as wide as they are long
  bool power_of_two = false;  // current, row, tile: scales are rounded to one
  MxRule mx_rule = MxRule::round_up;  // mx
  float head_room = 1;  // elements are multiplied by it, results divided: room for stochastic ties
  bool operator==(const Encoding&) const = default;
};

/// Whether values are those of a storage type, as a conversion makes them: nothing is encoded.
constexpr bool is_plain(const Encoding& e) {
  return e.scaling == Scaling::none && e.rounding == Tie::even && e.hadamard == 0 &&
         e.head_room == 1 &&
         (e.format == Format::bf16 || e.format == Format::f32 || e.format == Format::f64);
}

/// Elements of a vector that share a scale: 1 where there is none, 0 where the whole vector does.
constexpr i64 block_size(const Encoding& e) {
  switch (e.scaling) {
    case Scaling::none:
      return 1;
    case Scaling::tile:
      return 128;
    case Scaling::mx:
      return 32;
    case Scaling::nvfp4:
      return 16;
    case Scaling::hif4:
      return 64;
    default:
      return 0;
  }
}

/// Whether a scale spans the whole tensor, and with it the tokens of a micro-batch.
constexpr bool spans_tensor(const Encoding& e) {
  return e.scaling == Scaling::current || e.scaling == Scaling::delayed ||
         e.scaling == Scaling::shift || e.scaling == Scaling::nvfp4;
}

/// Whether both orientations of a matrix hold the same values, so that one copy serves both.
constexpr bool same_both_ways(const Encoding& e) {
  if (e.hadamard != 0 || e.rounding == Tie::stochastic) return false;
  return e.square || e.scaling == Scaling::none || e.scaling == Scaling::current ||
         e.scaling == Scaling::delayed || e.scaling == Scaling::shift;
}

/// The FP32 scales that stay outside the elements, and are multiplied onto sums: (rows, cols) of
/// them, one for each `outer` vectors and each `depth` elements of the sum; 0: for all.
struct ScaleShape {
  i64 rows = 0, cols = 0, outer = 0, depth = 0;
};
constexpr ScaleShape scale_shape(const Encoding& e, i64 vectors, i64 depth) {
  switch (e.scaling) {
    case Scaling::none:
    case Scaling::mx:
    case Scaling::hif4:
      // The same for all, but a chunk of the sum at a time: so a sum goes on over micro-batches.
      return e.head_room == 1 ? ScaleShape{} : ScaleShape{1, (depth + 127) / 128, 0, 128};
    case Scaling::row:
      return {vectors, 1, 1, 0};
    case Scaling::tile: {
      const i64 outer = e.square ? 128 : 1;
      return {(vectors + outer - 1) / outer, (depth + 127) / 128, outer, 128};
    }
    default:
      return {1, 1, 0, 0};
  }
}

}  // namespace lathe::numerics
