#pragma once
// The update of a block of kMomentBlock elements whose weights, gradients or moments are stored in
// less than f32: everything is brought to f32 on the stack, stepped, and written back, each in its
// own kind. The block begins at a multiple of its size, so no group or draw straddles two.

#include "lathe/kernels/encode_draws.h"
#include "lathe/kernels/row_work.h"
#include "lathe/kernels/update.h"
#include "lathe/kernels/update_codes.h"
#include "lathe/kernels/words.h"

namespace lathe::kernels {

/// The scalars of one step, each computed in f64 and rounded once.
template <Lanes L>
struct AdamWLanes {
  using S = typename L::Scalar;
  explicit AdamWLanes(const AdamW& a)
      : scale(L::broadcast(S(a.grad_scale))),
        beta1(L::broadcast(S(a.beta1))),
        rest1(L::broadcast(S(1 - a.beta1))),
        beta2(L::broadcast(S(a.beta2))),
        rest2(L::broadcast(S(1 - a.beta2))),
        unbias1(L::broadcast(S(1 / a.correction1))),
        unbias2(L::broadcast(S(1 / a.correction2))),
        eps(L::broadcast(S(a.eps))),
        decay(L::broadcast(S(a.weight_decay))),
        minus_lr(L::broadcast(S(-a.lr))) {}
  L scale, beta1, rest1, beta2, rest2, unbias1, unbias2, eps, decay, minus_lr;
};

/// Weight and moments after a step.
template <Lanes L>
struct Stepped {
  L w, m, v;
};
template <Lanes L>
LATHE_INLINE Stepped<L> step_of(const L& w, const L& m, const L& v, const L& grad,
                                const AdamWLanes<L>& a) {
  const L g = grad * a.scale;
  const L first = fma(a.beta1, m, a.rest1 * g);
  const L second = fma(a.beta2, v, a.rest2 * (g * g));
  const L step = first * a.unbias1 / (sqrt(second * a.unbias2) + a.eps);
  return {fma(a.minus_lr, fma(a.decay, w, step), w), first, second};
}

template <Lanes L>
LATHE_INLINE void read_values(float* to, const ConstTensor& x, i64 first, i64 count) {
  with_type<L>(x.type, [&]<class X>(Type<X>) {
    const X* from = x.row<X>(0) + first;
    for_lanes(count, [&](i64 i, auto n) { L::load(from + i, n).store(to + i, n); });
  });
}

template <Lanes L>
LATHE_INLINE void write_values(float* to, const float* x, i64 count) {
  for_lanes(count, [&](i64 i, auto n) { L::load(x + i, n).store(to + i, n); });
}

/// x cut to BF16, having gone up in magnitude with probability (low 16 bits of x) / 2^16: the
/// sixteen bits are added below. What is not finite stays as it is.
template <Lanes L>
LATHE_INLINE L rounded_by(L x, typename L::Bits random) {
  const L y = L::from((bits(x) + random) & L::Bits::broadcast(0xffff0000));
  return select(x - x == L::broadcast(0), y, x);
}

/// to = x rounded stochastically by the bits of elements `first` onwards of a stream, whose blocks
/// are two of 128.
template <Lanes L>
LATHE_INLINE void write_drawn(bf16* to, const float* x, i64 first, i64 count, const Draws& d) {
  constexpr i64 kDrawn = 128;
  static_assert(kMomentBlock == 2 * kDrawn);
  alignas(64) u32 words[2 * kDrawWords];
  draw_blocks<2, L>(words, d, static_cast<u64>(first / kDrawn), 1);
  for_lanes(count, [&](i64 i, auto n) {
    const u32* const block = words + i / kDrawn * kDrawWords;
    const auto random = drawn<L>(block, i % kDrawn / kLanes);
    rounded_by<L>(L::load(x + i, n), random).store(to + i, n);
  });
}

template <Lanes L, class W>
LATHE_INLINE void read_moment(float* to, const Moment& m, i64 first, i64 count, Which which) {
  if (m.kind == MomentKind::plain || m.kind == MomentKind::bf16)
    return read_values<L>(to, m.values, first, count);
  const u8* codes = m.values.row<u8>(0) + first;
  if (m.kind == MomentKind::dynamic)
    return decode_dynamic<L, W>(to, codes, m.scales.row<float>(0)[first / kMomentBlock], count,
                                which);
  for (i64 b = 0; b < count; b += kMomentGroup)
    decode_expanded<L, W>(to + b, codes + b, m.scales.row<float>((first + b) / kMomentGroup),
                          smaller(kMomentGroup, count - b), which);
}

/// g: the gradients of the same elements.
template <Lanes L, class W>
LATHE_INLINE void write_moment(const Moment& m, const float* x, const float* g, i64 first,
                               i64 count, Which which, const Draws& d) {
  if (m.kind == MomentKind::plain) return write_values<L>(m.values.row<float>(0) + first, x, count);
  const Draws own{.seed = d.seed, .stream = d.stream + (which == Which::first ? 1 : 2)};
  if (m.kind == MomentKind::bf16)
    return write_drawn<L>(m.values.row<bf16>(0) + first, x, first, count, own);
  u8* codes = m.values.row<u8>(0) + first;
  if (m.kind == MomentKind::dynamic)
    return encode_dynamic<L, W>(codes, m.scales.row<float>(0) + first / kMomentBlock, x, g, count,
                                which);
  for (i64 b = 0; b < count; b += kMomentGroup)
    encode_expanded<L, W>(codes + b, m.scales.row<float>((first + b) / kMomentGroup), x + b, g + b,
                          smaller(kMomentGroup, count - b), which);
}

template <Lanes L, class W>
LATHE_INLINE void adamw_block(const Tensor& w_of, const Moment& m_of, const Moment& v_of,
                              const ConstTensor& grad, const AdamWLanes<L>& a, const Draws& d,
                              i64 first, i64 count) {
  alignas(64) float w[kMomentBlock], g[kMomentBlock], m[kMomentBlock], v[kMomentBlock];
  read_values<L>(w, w_of, first, count);
  read_values<L>(g, grad, first, count);
  read_moment<L, W>(m, m_of, first, count, Which::first);
  read_moment<L, W>(v, v_of, first, count, Which::second);
  for_lanes(count, [&](i64 i, auto n) {
    const Stepped<L> to =
        step_of(L::load(w + i, n), L::load(m + i, n), L::load(v + i, n), L::load(g + i, n), a);
    to.w.store(w + i, n);
    to.m.store(m + i, n);
    to.v.store(v + i, n);
  });
  if (w_of.type == DType::bf16)
    write_drawn<L>(w_of.row<bf16>(0) + first, w, first, count, d);
  else
    write_values<L>(w_of.row<float>(0) + first, w, count);
  write_moment<L, W>(m_of, m, g, first, count, Which::first, d);
  write_moment<L, W>(v_of, v, g, first, count, Which::second, d);
}

}  // namespace lathe::kernels
