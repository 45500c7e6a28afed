#pragma once
// Whole blocks with their scales, encoded and decoded one value after the other: the reference of
// every block format. Which scale a block takes: scale.h. How an element is rounded: cast.h.

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/scale.h"

namespace lathe::numerics {

enum class BlockKind : u8 { mxfp8, mxfp8e5m2, mxfp6e2m3, mxfp6e3m2, mxfp4, mxint8, nvfp4, hif4 };

struct BlockInfo {
  BlockKind kind;
  std::string_view name;
  Format element, scale;
  int size;  // values of a block, consecutive along the summed dimension
};

inline constexpr std::array kBlocks{
    BlockInfo{BlockKind::mxfp8, "mxfp8", Format::e4m3, Format::e8m0, 32},
    BlockInfo{BlockKind::mxfp8e5m2, "mxfp8e5m2", Format::e5m2, Format::e8m0, 32},
    BlockInfo{BlockKind::mxfp6e2m3, "mxfp6e2m3", Format::e2m3, Format::e8m0, 32},
    BlockInfo{BlockKind::mxfp6e3m2, "mxfp6e3m2", Format::e3m2, Format::e8m0, 32},
    BlockInfo{BlockKind::mxfp4, "mxfp4", Format::e2m1, Format::e8m0, 32},
    BlockInfo{BlockKind::mxint8, "mxint8", Format::mxint8, Format::e8m0, 32},
    BlockInfo{BlockKind::nvfp4, "nvfp4", Format::e2m1, Format::e4m3, 16},
    BlockInfo{BlockKind::hif4, "hif4", Format::s1p2, Format::e6m2, 64},
};

constexpr const BlockInfo& info(BlockKind k) { return kBlocks[static_cast<std::size_t>(k)]; }

/// Throws Error naming the nearest known kind.
BlockKind block_kind(const std::string& name);

struct BlockOptions {
  MxRule rule = MxRule::floor;       // of the scale; MX alone
  BadAmax bad = BadAmax::strict;     // what an infinity or a NaN makes of the block
  std::optional<Tie> tie = {};       // of the elements; none: away in HiF4, else even
  std::optional<float> amax = {};    // of the tensor, for NVFP4; none: that of the block
  std::span<const u32> random = {};  // for Tie::stochastic: a word for each value
};

/// One block. Elements saturate.
struct Block {
  BlockKind kind = BlockKind::mxfp8;
  std::vector<u8> codes;        // one a value
  u8 scale = 0;                 // a code of info(kind).scale
  Nvfp4Tensor tensor{0, 1, 1};  // NVFP4's second level
  u8 flags8 =
      0;  // HiF4: bit i doubles values 8i..8i+7. How its words lie in memory differs between
  u16 flags4 = 0;  // public sources, so they stay apart. Bit i doubles values 4i..4i+3.
};

/// At most info(kind).size values; a shorter block is one padded with zeros. MXINT8 stays within
/// ±127, as the code of the MX specification's authors does, though -128 can be decoded.
Block encode_block(BlockKind kind, std::span<const float> values, const BlockOptions& o = {});

/// Exact but for NVFP4, where the division by 6 * 448 is one FP64 rounding.
std::vector<double> decode_block(const Block& b);

/// A matrix (rows, cols) in NVFP4, row after row: blocks of 16 along a row with a scale each, or
/// tiles of 16 x 16 that share one, as weights have, so that both orientations hold the same
/// values. Blocks and tiles at the edges may be smaller.
struct Nvfp4Matrix {
  i64 rows = 0, cols = 0;
  bool tiles = false;
  Nvfp4Tensor tensor{0, 1, 1};
  std::vector<u8> codes;   // (rows, cols)
  std::vector<u8> scales;  // (tiles ? ceil(rows / 16) : rows, ceil(cols / 16))

  double at(i64 row, i64 col) const;
};
Nvfp4Matrix encode_nvfp4(std::span<const float> values, i64 rows, i64 cols, bool tiles,
                         const BlockOptions& o = {});

/// A tile of DeepSeek-V3 in E4M3, of whatever shape: value = scale.decode * decode(code).
struct Tile {
  TileScale scale;
  std::vector<u8> codes;
};
Tile encode_tile(std::span<const float> values, bool power_of_two = false);

}  // namespace lathe::numerics
