#include "lathe/numerics/block.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/numerics/cast.h"
#include "lathe/numerics/format.h"
#include "lathe/numerics/scale.h"

namespace lathe::numerics {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kMax = std::numeric_limits<float>::max();

std::string hex(const std::vector<u8>& nibbles) {
  std::string s;
  for (const u8 n : nibbles) s += "0123456789abcdef"[n];
  return s;
}

/// 0.1, -0.2, 0.3, … -1.6.
std::vector<float> saw() {
  std::vector<float> v;
  for (int n = 1; n <= 16; ++n) v.push_back(static_cast<float>(n % 2 == 1 ? n / 10.0 : -n / 10.0));
  return v;
}

TEST(Block, KnownNvfp4Blocks) {
  struct Case {
    float amax;
    std::vector<float> values;
    u8 scale;
    std::string codes;
  };
  const std::vector<float> zero(16, 0), tiny(16, 1e-6F), least(16, 1e-40F);
  for (const Case& c : {Case{1.6F, saw(), 0x7e, "192b4c5d5e6e6f7f"},
                        {10, saw(), 0x69, "192b4c5d5e6e6f7f"},
                        {100, saw(), 0x4e, "1a2b4c5d5e6e6f7f"},
                        {2688, saw(), 0x29, "192b4c4d5e6e6e7f"},
                        {10, zero, 0x00, "0000000000000000"},
                        {10, tiny, 0x00, "7777777777777777"},
                        {1e-40F, least, 0x03, "0000000000000000"}}) {
    const Block b = encode_block(BlockKind::nvfp4, c.values, {.amax = c.amax});
    EXPECT_EQ(b.scale, c.scale) << c.amax;
    EXPECT_EQ(hex(b.codes), c.codes) << c.amax;
    if (b.scale != 0) continue;
    for (const double v : decode_block(b)) EXPECT_EQ(v, 0);
  }
}

TEST(Block, FloorSaturatesTheLargestElementAndRoundUpDoesNot) {
  const std::vector<float> v{957};
  EXPECT_EQ(decode_block(encode_block(BlockKind::mxfp8, v)).front(), 896);
  EXPECT_EQ(decode_block(encode_block(BlockKind::mxfp8, v, {.rule = MxRule::round_up})).front(),
            960);
}

TEST(Block, TheLargestFloatIsFiniteInItsBlockAndLeavesFp32WhenRoundedUp) {
  const std::vector<float> v{kMax, 1};
  const Block b = encode_block(BlockKind::mxfp8, v, {.rule = MxRule::round_up});
  EXPECT_EQ(decode_block(b)[0], 0x1p128);
  EXPECT_EQ(static_cast<float>(decode_block(b)[0]), kInf);
  EXPECT_EQ(decode_block(encode_block(BlockKind::mxfp8, v))[0], 448 * 0x1p119);
  for (const BlockInfo& i : kBlocks)
    for (const double d : decode_block(encode_block(i.kind, v)))
      EXPECT_TRUE(std::isfinite(d)) << i.name;
}

TEST(Block, ZerosAreZeroAndKeepTheirSignWhereThereIsOne) {
  for (const BlockInfo& i : kBlocks) {
    const Block b = encode_block(i.kind, std::vector<float>{0, -0.0F, 0});
    for (const double d : decode_block(b)) EXPECT_EQ(d, 0) << i.name;
    EXPECT_EQ(b.codes[1], info(i.element).has_minus_zero ? info(i.element).sign_bit() : 0)
        << i.name;
    EXPECT_EQ(b.scale, 0) << i.name;
  }
}

TEST(Block, ANanOrAnInfinityAtAnyPlaceMakesTheWholeBlockNan) {
  for (const BlockInfo& i : kBlocks)
    for (int n = 0; n < i.size; ++n)
      for (const float bad : {kNan, kInf, -kInf}) {
        std::vector<float> v(static_cast<std::size_t>(i.size), 1);
        v[static_cast<std::size_t>(n)] = bad;
        for (const double d : decode_block(encode_block(i.kind, v)))
          ASSERT_TRUE(std::isnan(d)) << i.name << " " << n;
      }
}

TEST(Block, UnderTransformerEnginesPolicyInfinitiesSaturateAndNansDoNot) {
  for (const BlockInfo& i : kBlocks) {
    const BlockOptions o{.bad = BadAmax::te, .amax = 1};
    const std::vector<double> d =
        decode_block(encode_block(i.kind, std::vector<float>{kInf, -kInf, 1}, o));
    EXPECT_TRUE(std::isfinite(d[0]) && d[0] >= 1) << i.name << " " << d[0];
    EXPECT_EQ(d[1], -d[0]) << i.name;
    EXPECT_TRUE(std::isnan(decode_block(encode_block(i.kind, std::vector<float>{kNan}, o))[0]));
  }
}

TEST(Block, SubnormalValuesAreScaledAsFarAsScalesReach) {
  // 2^-127 is the smallest MX scale and 2^-9 the smallest E4M3: 2^-136 stays.
  const std::vector<float> v{0x1p-136F, 0x1p-138F, 0x1p-126F};
  EXPECT_EQ(decode_block(encode_block(BlockKind::mxfp8, v)),
            (std::vector<double>{0x1p-136, 0, 0x1p-126}));
}

TEST(Block, Mxint8StaysSymmetric) {
  const std::vector<float> v{-1.999F, 1.999F, -1};
  EXPECT_EQ(encode_block(BlockKind::mxint8, v).codes, (std::vector<u8>{0x81, 0x7f, 0xc0}));
}

TEST(Block, Hif4FlagsTheGroupsThatNeedALargerStep) {
  std::vector<float> v(64, 0.25F);
  v[0] = 7;   // 7 / 4 = 1.75 with both flags
  v[20] = 3;  // its eight needs no flag (3 < 4), its four does
  const Block b = encode_block(BlockKind::hif4, v);
  EXPECT_EQ(b.scale, 0xc0) << "1";
  EXPECT_EQ(b.flags8, 1);
  EXPECT_EQ(b.flags4, (1U << 0) | (1U << 5));
  EXPECT_EQ(b.codes[0], 7);
  EXPECT_EQ(b.codes[1], 0) << "a quarter of its group's step of 1";
  EXPECT_EQ(b.codes[20], 6);
  EXPECT_EQ(decode_block(b)[0], 7);
  EXPECT_EQ(decode_block(b)[20], 3);
  EXPECT_EQ(decode_block(b)[63], 0.25);
}

/// Every decoded value is within half a step of its group's element, or the element saturated.
TEST(Block, Hif4ErrsByAtMostHalfAStep) {
  const Rng rng{3};
  for (u64 n = 0; n < 200; ++n) {
    std::vector<float> v;
    for (u64 k = 0; k < 64; ++k)
      v.push_back(static_cast<float>(rng.normal(64 * n + k) * std::exp2(rng.normal(1000 + n))));
    const Block b = encode_block(BlockKind::hif4, v);
    const std::vector<double> d = decode_block(b);
    for (std::size_t k = 0; k < 64; ++k) {
      const int flags = (b.flags8 >> (k / 8) & 1) + (b.flags4 >> (k / 4) & 1);
      const double base = decode(Format::e6m2, b.scale), step = base * std::exp2(flags) / 4;
      // The reciprocal is rounded to BF16: relative 2^-9 of at most 7.5 steps.
      if ((b.codes[k] & 7) != 7) {
        EXPECT_LE(std::abs(d[k] - double{v[k]}), step * (0.5 + 7.5 * 0x1p-8)) << k;
      }
    }
  }
}

TEST(Block, StochasticElementsTakeTheirOwnRandomWord) {
  const std::vector<float> v{2.5F, 2.5F, 6};
  const std::vector<u32> words{0, ~u32{0}, 0};
  const BlockOptions o{.tie = Tie::stochastic, .random = words};
  EXPECT_EQ(hex(encode_block(BlockKind::mxfp4, v, o).codes), "457");
}

TEST(Nvfp4Matrix, RowsAreBlocksAndTilesAreTheSameInBothOrientations) {
  constexpr i64 kRows = 21, kCols = 35;
  const Rng rng{5};
  std::vector<float> m(kRows * kCols), t(kRows * kCols);
  for (i64 r = 0; r < kRows; ++r)
    for (i64 c = 0; c < kCols; ++c)
      t[static_cast<std::size_t>(c * kRows + r)] = m[static_cast<std::size_t>(r * kCols + c)] =
          static_cast<float>(rng.normal(static_cast<u64>(r * kCols + c)));
  const Nvfp4Matrix rows = encode_nvfp4(m, kRows, kCols, false);
  EXPECT_EQ(rows.scales.size(), 21u * 3);
  for (const i64 first : {0, 16, 32}) {
    const std::span<const float> row(m.data() + 2 * kCols + first,
                                     static_cast<std::size_t>(std::min<i64>(16, kCols - first)));
    const std::vector<double> d =
        decode_block(encode_block(BlockKind::nvfp4, row, {.amax = amax(m)}));
    for (i64 c = 0; c < std::ssize(row); ++c)
      EXPECT_EQ(rows.at(2, first + c), d[static_cast<std::size_t>(c)]);
  }
  const Nvfp4Matrix upright = encode_nvfp4(m, kRows, kCols, true);
  const Nvfp4Matrix turned = encode_nvfp4(t, kCols, kRows, true);
  EXPECT_EQ(upright.scales.size(), 2u * 3);
  for (i64 r = 0; r < kRows; ++r)
    for (i64 c = 0; c < kCols; ++c) EXPECT_EQ(upright.at(r, c), turned.at(c, r));
}

TEST(Tile, ReproducesItsAmaxAndKeepsZerosAndNans) {
  const Tile t = encode_tile(std::vector<float>{3, -1.5F, 0}, true);
  EXPECT_EQ(t.scale.decode * decode(Format::e4m3, t.codes[0]), 3);
  EXPECT_EQ(t.scale.decode * decode(Format::e4m3, t.codes[1]), -1.5);
  EXPECT_EQ(encode_tile(std::vector<float>(128, 0)).codes, std::vector<u8>(128, 0));
  EXPECT_TRUE(std::isnan(encode_tile(std::vector<float>{1, kNan}).scale.decode));
}

TEST(Block, AnUnknownKindSuggestsTheNearest) {
  EXPECT_EQ(block_kind("mxfp6e2m3"), BlockKind::mxfp6e2m3);
  for (std::size_t n = 0; n < kBlocks.size(); ++n)
    EXPECT_EQ(static_cast<std::size_t>(kBlocks[n].kind), n);
  try {
    block_kind("mxfp5");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(e.hint().find("did you mean \"mxfp"), std::string::npos) << e.hint();
  }
}

}  // namespace
}  // namespace lathe::numerics
