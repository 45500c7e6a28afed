#pragma once
// The formulas, as templates over a lane type (lanes.h). On floats exp and log are our own, built
// from operations that round alike everywhere, so that every back end gives the same bits; on
// double and complex lanes they are the C library's. A NaN gives a NaN.

#include <limits>

#include "lathe/kernels/lanes.h"

namespace lathe::kernels {

/// Added to a float of magnitude below 2^22, it leaves the nearest whole number in the low bits.
inline constexpr float kExponentShift = 12582912.0F;  // 1.5 * 2^23

/// e^x. On floats within 1 ulp (tests/kernels/math_test.cpp measures it); 0 where the result would
/// be subnormal (below -87.33654), +inf above 88.72283.
template <Lanes L>
LATHE_INLINE L exp(L x) {
  if constexpr (!L::kSingle) {
    return L::each([&](i64 i) { return std::exp(x.v[i]); });
  } else {
    // Cody and Waite: x = n ln 2 + r, |r| <= ln 2 / 2; the polynomial is that of Cephes' expf.
    const auto c = [](float s) { return L::broadcast(s); };
    const L d = exp_domain(x);
    const L t = fma(d, c(1.44269504F), c(kExponentShift));
    const L n = t - c(kExponentShift);
    const L r = fma(n, c(2.12194440e-4F), fma(n, c(-0.693359375F), d));
    L p = fma(c(1.9875691500e-4F), r, c(1.3981999507e-3F));
    p = fma(p, r, c(8.3334519073e-3F));
    p = fma(p, r, c(4.1665795894e-2F));
    p = fma(p, r, c(1.6666665459e-1F));
    p = fma(p, r, c(5.0000001201e-1F));
    p = fma(p, r * r, r) + c(1.0F);
    return exp_scaled(p, n, t, x);
  }
}

/// Natural logarithm. On floats within 2 ulp; -inf at zero and subnormals, NaN below.
template <Lanes L>
LATHE_INLINE L log(L x) {
  if constexpr (!L::kSingle) {
    return L::each([&](i64 i) { return std::log(x.v[i]); });
  } else {
    // The polynomial is that of Cephes' logf, for mantissas in [sqrt(1/2), sqrt(2)).
    const auto c = [](float s) { return L::broadcast(s); };
    L mantissa;
    const L e = split(x, mantissa);
    const L f = mantissa - c(1.0F);
    L p = fma(c(7.0376836292e-2F), f, c(-1.1514610310e-1F));
    p = fma(p, f, c(1.1676998740e-1F));
    p = fma(p, f, c(-1.2420140846e-1F));
    p = fma(p, f, c(1.4249322787e-1F));
    p = fma(p, f, c(-1.6668057665e-1F));
    p = fma(p, f, c(2.0000714765e-1F));
    p = fma(p, f, c(-2.4999993993e-1F));
    p = fma(p, f, c(3.3333331174e-1F));
    const L z = f * f;
    L y = fma(e, c(-2.12194440e-4F), p * f * z);
    y = f + fma(c(-0.5F), z, y);
    y = fma(e, c(0.693359375F), y);
    const L inf = c(std::numeric_limits<float>::infinity());
    y = select(x < inf, y, x);
    y = select(x < c(std::numeric_limits<float>::min()), -inf, y);
    return select(x < c(0.0F), c(std::numeric_limits<float>::quiet_NaN()), y);
  }
}

/// s = 1 / (1 + e^-x), and its slope s (1 - s), both without cancellation.
template <Lanes L>
struct Logistic {
  L s, slope;
};
template <Lanes L>
LATHE_INLINE Logistic<L> logistic(L x) {
  const L one = L::broadcast(1);
  const auto positive = x >= L::broadcast(0);
  const L e = exp(minus_abs(x));
  const L r = one / (one + e);
  const L er = e * r;
  return {select(positive, r, er), er * r};
}

/// The tanh form of GELU (Hendrycks and Gimpel, 2016). Since (1 + tanh u) / 2 = logistic(2 u), it
/// is x logistic(2 u) with u = sqrt(2/pi) (x + 0.044715 x^3), in which nothing cancels.
inline constexpr double kGeluScale = 2 * 0.79788456080286535588;  // 2 sqrt(2/pi)
inline constexpr double kGeluCubic = 0.044715;

template <Lanes L>
LATHE_INLINE L gelu(L x) {
  using S = typename L::Scalar;
  const L k = L::broadcast(S(kGeluScale)), k3 = L::broadcast(S(kGeluScale * kGeluCubic));
  return x * logistic(x * fma(k3, x * x, k)).s;
}

/// d gelu(x) / dx.
template <Lanes L>
LATHE_INLINE L gelu_slope(L x) {
  using S = typename L::Scalar;
  const L k = L::broadcast(S(kGeluScale)), k3 = L::broadcast(S(kGeluScale * kGeluCubic));
  // Past 50 the slope is 0 or 1 whatever x is, while x^2 may overflow. A NaN passes.
  const L near = max(L::broadcast(S(-50)), min(L::broadcast(S(50)), x));
  const L square = near * near;
  const Logistic<L> g = logistic(near * fma(k3, square, k));
  const L inner = fma(L::broadcast(S(3)) * k3, square, k);
  return fma(near * g.slope, inner, g.s);
}

/// x logistic(x) (Elfwing, Uchibe and Doya, 2018), and its slope.
template <Lanes L>
struct Silu {
  L value, slope;
};
template <Lanes L>
LATHE_INLINE Silu<L> silu(L x) {
  const Logistic<L> g = logistic(x);
  return {x * g.s, fma(x, g.slope, g.s)};
}

}  // namespace lathe::kernels
