#pragma once
// The last pass: every element of a panel, by its block's scales, to its code.

#include "lathe/base/view.h"
#include "lathe/kernels/encode_draws.h"
#include "lathe/kernels/encode_hif4.h"
#include "lathe/kernels/encode_panel.h"
#include "lathe/kernels/encode_plan.h"
#include "lathe/kernels/encode_round.h"
#include "lathe/kernels/encode_scales.h"
#include "lathe/kernels/lanes.h"
#include "lathe/numerics/encoding.h"

namespace lathe::kernels {

/// What row scaling found for each vector.
struct VectorScales {
  float *pre = nullptr, *decode = nullptr;
};

/// Where the scales of a panel's elements are. An entry is for `rows` rows and `cols` columns, or,
/// with `columns`, for `rows` rows of one column. A step of 0: the first is for all.
struct Blocks {
  const float *pre, *unit, *post, *decode;
  i64 pre_step, unit_step, post_step, decode_step;
  i64 rows, cols;
  bool columns;

  LATHE_INLINE i64 entry(i64 r, i64 c) const {
    return columns ? r / rows * kPanelCols + c : r / rows * (kPanelCols / cols) + c / cols;
  }
};

LATHE_INLINE Blocks blocks_of(const EncodePlan& p, const PanelSpace& s, const PanelAt& at,
                              const VectorScales& v) {
  using numerics::Scaling;
  const bool along_cols = p.along == Along::cols;
  Blocks b{&p.multiplier, p.ones, p.ones, &p.decode, 0, 0, 0, 0, kPanelRows, kPanelCols, false};
  const Scaling scaling = p.encoding.scaling;
  if (scaling == Scaling::row) {
    const i64 first = along_cols ? at.top : at.left;
    b.pre = v.pre + first, b.decode = v.decode + first;
    b.pre_step = b.decode_step = 1;
    if (along_cols) b.rows = 1;
    b.columns = !along_cols;
    return b;
  }
  if (p.block == 0) return b;
  b.pre = s.pre, b.pre_step = 1;
  if (scaling == Scaling::tile)
    b.decode = s.decode, b.decode_step = 1;
  else
    b.post = s.post, b.post_step = 1;
  if (scaling == Scaling::mx) b.unit = s.unit, b.unit_step = 1;
  const bool each = scaling == Scaling::hif4;
  b.columns = each || (!along_cols && !p.encoding.square);
  b.rows = !each && (p.encoding.square || !along_cols) ? p.block : 1;
  b.cols = p.block;
  return b;
}

/// The scales of a panel's blocks, into s.
template <Lanes L>
LATHE_INLINE void scale_panel(const PanelSpace& s, const EncodePlan& p) {
  if (p.block == 0) return;
  if (p.encoding.scaling == numerics::Scaling::hif4) return hif4_scales<L>(s, p);
  scale_blocks<L>(s, amax_of_blocks<L>(s.amax, s.x, p), p);
}

/// Turns `block` to the next block's scales: the lattice stays where it is unless it has a unit.
template <Lanes L>
LATHE_INLINE void turn_to(BlockOf<L>& block, L pre, L unit, L post, bool shifts,
                          const EncodePlan& p) {
  block.pre = pre, block.post = post;
  if (!shifts) return;
  block.low = L::broadcast(p.lowest) * unit;
  block.top = L::broadcast(p.top) * unit;
  block.bottom = L::broadcast(p.bottom) * unit;
}

/// Codes (at.rows, at.cols) at `codes` from the panel s.x.
template <Lanes L, Grid G, numerics::Tie T, class Code>
void round_panel(Code* codes, i64 stride, const PanelAt& at, const PanelSpace& s, const Blocks& b,
                 const EncodePlan& p) {
  const Target<L> target(p);
  const float* x = s.x;
  const u32* words = s.words;
  BlockOf<L> block{L::broadcast(1), L::broadcast(p.lowest), L::broadcast(p.top),
                   L::broadcast(p.bottom), L::broadcast(1)};
  const auto one = [&](i64 r, i64 c, auto n) {
    auto random = L::Bits::broadcast(0);
    if constexpr (T == numerics::Tie::stochastic)
      random = drawn<L>(words + r * kDrawWords, c / kLanes);
    const L code = round_element<L, G, T>(L::load(x + r * kPanelCols + c), block, target, random);
    if constexpr (sizeof(Code) == sizeof(bf16))
      code.store_upper(codes + r * stride + c, n);
    else
      code.store(codes + r * stride + c, n);
  };
  const i64 rows = at.rows, cols = at.cols, whole = cols / kLanes * kLanes;
  const i64 high = b.rows, wide = b.cols, pre_step = b.pre_step, unit_step = b.unit_step,
            post_step = b.post_step;
  const float *pre = b.pre, *unit = b.unit, *post = b.post;
  for (i64 top = 0; top < rows; top += high) {
    const i64 bottom = smaller(rows, top + high);
    if (b.columns) {
      for_lanes(cols, [&](i64 c, auto n) {
        turn_to(block, L::load(pre + c * pre_step), L::load(unit + c * unit_step),
                L::load(post + c * post_step), unit_step != 0, p);
        for (i64 r = top; r < bottom; ++r) one(r, c, n);
      });
      pre += kPanelCols * pre_step, unit += kPanelCols * unit_step, post += kPanelCols * post_step;
      continue;
    }
    for (i64 left = 0; left < kPanelCols; left += wide) {
      turn_to(block, L::broadcast(*pre), L::broadcast(*unit), L::broadcast(*post), unit_step != 0,
              p);
      pre += pre_step, unit += unit_step, post += post_step;
      const i64 right = smaller(whole, left + wide);
      for (i64 r = top; r < bottom; ++r)
        for (i64 c = left; c < right; c += kLanes) one(r, c, All{});
      if (whole < cols && whole >= left && whole < left + wide)
        for (i64 r = top; r < bottom; ++r) one(r, whole, cols - whole);
    }
  }
}

template <class Code>
using RoundPanel = void (*)(Code*, i64, const PanelAt&, const PanelSpace&, const Blocks&,
                            const EncodePlan&);

template <Lanes L, class Code, Grid G>
LATHE_INLINE RoundPanel<Code> round_panel_on(numerics::Tie tie) {
  using numerics::Tie;
  switch (tie) {
    case Tie::away:
      return &round_panel<L, G, Tie::away, Code>;
    case Tie::stochastic:
      return &round_panel<L, G, Tie::stochastic, Code>;
    default:
      return &round_panel<L, G, Tie::even, Code>;
  }
}

template <Lanes L, class Code>
LATHE_INLINE RoundPanel<Code> round_panel_of(const EncodePlan& p) {
  const numerics::Tie tie = p.encoding.rounding;
  switch (p.grid) {
    case Grid::lattice:
      return round_panel_on<L, Code, Grid::lattice>(tie);
    case Grid::half:
      return round_panel_on<L, Code, Grid::half>(tie);
    case Grid::whole:
      return round_panel_on<L, Code, Grid::whole>(tie);
    case Grid::product:
      return round_panel_on<L, Code, Grid::product>(tie);
    case Grid::tapered:
      return round_panel_on<L, Code, Grid::tapered>(tie);
    case Grid::bits:
      return round_panel_on<L, Code, Grid::bits>(tie);
  }
  return nullptr;
}

}  // namespace lathe::kernels
