#pragma once
// encode.h over any lane type. A call takes up to three passes over x: the amax of the tensor or of
// its vectors, where the scaling asks for one; then panel by panel its blocks' scales and its
// codes.

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/encode.h"
#include "lathe/kernels/encode_amax.h"
#include "lathe/kernels/encode_fidelity.h"
#include "lathe/kernels/encode_panel.h"
#include "lathe/kernels/encode_plan.h"
#include "lathe/kernels/encode_values.h"
#include "lathe/kernels/row_work.h"

namespace lathe::kernels {

/// Writes the scales of a panel's tiles.
template <Lanes L>
LATHE_INLINE void store_tile_scales(const Tensor& scales, const PanelSpace& s, const PanelAt& at,
                                    const EncodePlan& p) {
  const i64 down = at.top / kPanelRows, across = at.left / kPanelCols;
  if (p.encoding.square) {
    const bool cols = p.along == Along::cols;
    scales.row<float>(cols ? down : across)[cols ? across : down] = s.decode[0];
  } else if (p.along == Along::cols) {
    for (i64 r = 0; r < at.rows; ++r) scales.row<float>(at.top + r)[across] = s.decode[r];
  } else {
    for (i64 c = 0; c < at.cols; ++c) scales.row<float>(at.left + c)[down] = s.decode[c];
  }
}

template <Lanes L>
void encode(Queue& q, const Tensor& codes, const Tensor& scales, const ConstTensor& x,
            const numerics::Encoding& e, Along along, const Draws& d,
            const Tensor& history) noexcept {
  using numerics::Scaling;
  EncodePlan p = plan_encode(e, along);
  const VectorScales vectors = take_amaxes<L>(q, p, x, history, scales, true);
  const bool shared = e.scaling != Scaling::row && e.scaling != Scaling::tile;
  if (shared)
    for (i64 i = 0; i < scales.cols; ++i) scales.row<float>(0)[i] = p.decode;
  with_type<L>(x.type, [&]<class X>(Type<X>) {
    with_type<L>(codes.type, [&]<class Code>(Type<Code>) {
      const auto round = round_panel_of<L, Code>(p);
      for_panels<L>(q, p.height, x.rows, x.cols, [&](const PanelAt& at, int worker) {
        const PanelSpace s(q.scratch(worker));
        load_panel<L, X>(s.x, x, at, p);
        if (e.rounding == numerics::Tie::stochastic) draw_panel<L>(s.words, at, x.cols, d);
        scale_panel<L>(s, p);
        if (e.scaling == Scaling::tile) store_tile_scales<L>(scales, s, at, p);
        round(codes.row<Code>(at.top) + at.left, codes.stride, at, s, blocks_of(p, s, at, vectors),
              p);
      });
    });
  });
}

/// EncodeKernels::fidelity, with memory for the sums of `most` panels: so many at a time, one after
/// the other, which leaves the order of the sums as it is.
template <Lanes L>
void fidelity_by(Queue& q, i64 most, const Tensor& sums, const ConstTensor& x,
                 const numerics::Encoding& e, Along along, const Draws& d, const Tensor& history) {
  EncodePlan p = plan_encode(e, along);
  const VectorScales vectors = take_amaxes<L>(q, p, x, history, Tensor{}, false);
  EncodePlan wide = p;
  widen_limits(wide);
  const auto round = round_panel_of<L, float>(wide);
  double* parts = fidelity_parts(q);
  const PanelCut cut(p.height, x.rows, x.cols);
  const auto measure_pieces = [&]<class X>(i64 begin, i64 end) {
    for_panels<L>(q, cut, begin, end, [&](const PanelAt& at, int worker) {
      const PanelSpace s(q.scratch(worker));
      load_panel<L, X>(s.x, x, at, p);
      if (e.rounding == numerics::Tie::stochastic) draw_panel<L>(s.words, at, x.cols, d);
      scale_panel<L>(s, p);
      const Blocks blocks = blocks_of(p, s, at, vectors);
      Blocks plain = blocks;
      plain.post = p.ones, plain.post_step = 0;
      round(s.measured, kPanelCols, at, s, plain, wide);
      measure_panel(parts + (at.index - cut.first_panel(begin)) * kFidelities, s, at, blocks, p);
    });
    add_fidelity(sums, parts, cut.first_panel(end) - cut.first_panel(begin));
  };
  with_type<L>(x.type, [&]<class X>(Type<X>) {
    const i64 some = most / cut.some;
    for (i64 begin = 0; begin < cut.pieces; begin += some)
      measure_pieces.template operator()<X>(begin, smaller(cut.pieces, begin + some));
  });
  sums.row<double>(0)[kElements] += static_cast<double>(x.size());
}

template <Lanes L>
void fidelity(Queue& q, const Tensor& sums, const ConstTensor& x, const numerics::Encoding& e,
              Along along, const Draws& d, const Tensor& history) noexcept {
  fidelity_by<L>(q, kFidelityParts, sums, x, e, along, d, history);
}

template <Lanes L>
LATHE_INLINE void set_encode(EncodeKernels& k) {
  k.encode = &encode<L>;
  k.fidelity = &fidelity<L>;
  k.update_history = &update_history;
}

}  // namespace lathe::kernels
