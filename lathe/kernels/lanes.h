#pragma once
// Sixteen lanes: the unit in which every row is worked on, in every back end. A row sum is taken in
// sixteen partial sums, element i going to lane i mod 16, and the lanes are then folded in halves:
// 8, 4, 2, 1. Whatever the width of the machine's registers, these are the same additions, so row
// kernels are written once, as templates over a lane type, and give the same bits everywhere.
//
// A lane type L has
//   Scalar, Mask                  an element; sixteen truth values with & | !
//   load(p), load(p, n)           from float or bf16; n < 16: the rest is zero and is not read
//   store(p), store(p, n)         to float or bf16 (rounded to nearest even); only n are written
//   broadcast(s), first(n)        sixteen times s; the mask of lanes below n
//   + - * / unary- fma sqrt       each rounded once; fma(a, b, c) = a b + c
//   < <= > >= == !=               giving Mask; false where either is NaN, save !=
//   select(m, a, b)               m ? a : b
//   min(a, b), max(a, b)          a < b ? a : b, a > b ? a : b: where either is NaN, b
//   sum(), hmax(), lane0()        the fold above; the same fold with max; lane 0
//   SquareSum                     sixteen f64 sums of squares: add(l), total()
//   minus_abs(a)                  -|a|
//   exp_domain, exp_scaled, split what exp and log need (math.h); only where kSingle
// and, only where kSingle, what encoding needs:
//   Bits                          sixteen u32: load, store, broadcast, index() = 0..15, + - & | ^,
//                                 shl(n), shr(n), max, min, hmax(); and on even lanes, leaving odd
//                                 ones to any value: mul_even(a, k), 64 bits over both lanes of a
//                                 pair; upper_half(a), of those; pairs(a, b), odd lanes from even
//                                 ones of b
//   bits(a), from(b)              the bits of a float, and back
//   number(b), whole(a)           b as a number; a without its fraction, 0 <= a < 2^31
//   exchange<N>(a)                lane i is lane i ^ N of a; N = 1, 2, 4, 8
//   low_lanes<N>(a, b)            lanes without bit N: of a in their places, of b in those with it
//   high_lanes<N>(a, b)           lanes with bit N: of a in the places without it, of b in theirs
//   store_upper(p), (p, n)        to bf16, the lower halves cut off
// n may be All{} wherever it may be a number: then it is 16, known when compiling.
//
// Plain<S> is the one in plain C++, also for double and complex<double> (gradient checks by complex
// step compare and select by the real part). It loads and stores double and complex as well.

#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

#include "lathe/base/view.h"

namespace lathe::kernels {

inline constexpr i64 kLanes = 16;

/// BF16 to float: exact.
LATHE_INLINE float to_float(bf16 x) { return std::bit_cast<float>(u32{x.bits} << 16); }

/// Float to BF16, to nearest even in one rounding; NaN stays NaN (quiet), subnormals stay.
LATHE_INLINE bf16 to_bf16(float x) {
  const u32 u = std::bit_cast<u32>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<u16>((u >> 16) | 0x40u)};
  return {static_cast<u16>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

/// Double to BF16 in one rounding: the float between is rounded to odd, which keeps every tie and
/// every side of a tie apart.
LATHE_INLINE bf16 to_bf16(double x) {
  const float f = static_cast<float>(x);
  u32 u = std::bit_cast<u32>(f);
  const double back = f;
  if (back == x || x != x) return to_bf16(f);
  if ((u & 0x7fffffffu) == 0x7f800000u) return to_bf16(f);
  const bool away = x > 0 ? back > x : back < x;
  if (away) --u;
  return to_bf16(std::bit_cast<float>(u | 1u));
}

/// e^x is a normal float between these, both included.
inline constexpr float kExpLowest = -87.33654F, kExpHighest = 88.72283F;

/// All sixteen lanes, known when compiling.
struct All {
  constexpr operator i64() const { return kLanes; }  // NOLINT: implicit, as it stands for a number
};

/// Satisfied by what the top of this file describes.
template <class L>
concept Lanes = requires {
  typename L::Scalar;
  typename L::Mask;
  L::kSingle;
};

/// |x|; where kSingle.
template <Lanes L>
LATHE_INLINE L magnitude(const L& x) {
  return L::from(bits(x) & L::Bits::broadcast(0x7fffffff));
}

LATHE_INLINE double real_part(double x) { return x; }
LATHE_INLINE float real_part(float x) { return x; }
LATHE_INLINE double real_part(const std::complex<double>& x) { return x.real(); }

/// Lanes<...>::Bits in plain C++.
struct PlainBits {
  u32 v[kLanes];

  template <class F>
  LATHE_INLINE static PlainBits each(const F& f) {
    PlainBits r;
    for (i64 i = 0; i < kLanes; ++i) r.v[i] = f(i);
    return r;
  }
  static PlainBits load(const u32* p) {
    return each([&](i64 i) { return p[i]; });
  }
  void store(u32* p) const { std::memcpy(p, v, sizeof v); }
  static PlainBits broadcast(u32 x) {
    return each([&](i64) { return x; });
  }
  static PlainBits index() {
    return each([](i64 i) { return static_cast<u32>(i); });
  }
  friend PlainBits operator+(const PlainBits& a, const PlainBits& b) {
    return each([&](i64 i) { return a.v[i] + b.v[i]; });
  }
  friend PlainBits operator-(const PlainBits& a, const PlainBits& b) {
    return each([&](i64 i) { return a.v[i] - b.v[i]; });
  }
  friend PlainBits operator&(const PlainBits& a, const PlainBits& b) {
    return each([&](i64 i) { return a.v[i] & b.v[i]; });
  }
  friend PlainBits operator|(const PlainBits& a, const PlainBits& b) {
    return each([&](i64 i) { return a.v[i] | b.v[i]; });
  }
  friend PlainBits operator^(const PlainBits& a, const PlainBits& b) {
    return each([&](i64 i) { return a.v[i] ^ b.v[i]; });
  }
  PlainBits shl(int n) const {
    return each([&](i64 i) { return v[i] << n; });
  }
  PlainBits shr(int n) const {
    return each([&](i64 i) { return v[i] >> n; });
  }
  friend PlainBits max(const PlainBits& a, const PlainBits& b) {
    return each([&](i64 i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
  }
  friend PlainBits min(const PlainBits& a, const PlainBits& b) {
    return each([&](i64 i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
  }
  u32 hmax() const {
    u32 m = 0;
    for (const u32 x : v) m = x > m ? x : m;
    return m;
  }
  friend PlainBits mul_even(const PlainBits& a, u32 k) {
    return each([&](i64 i) { return static_cast<u32>(u64{a.v[i & ~1]} * k >> (i & 1) * 32); });
  }
  friend PlainBits upper_half(const PlainBits& a) {
    return each([&](i64 i) { return (i & 1) == 0 ? a.v[i + 1] : 0; });
  }
  friend PlainBits pairs(const PlainBits& a, const PlainBits& b) {
    return each([&](i64 i) { return (i & 1) == 0 ? a.v[i] : b.v[i - 1]; });
  }
};

template <class S>
struct Plain {
  using Scalar = S;
  using Bits = PlainBits;
  static constexpr bool kSingle = std::is_same_v<S, float>;
  struct Mask {
    bool on[kLanes];
    friend Mask operator&(const Mask& a, const Mask& b) {
      return mask([&](i64 i) { return a.on[i] && b.on[i]; });
    }
    friend Mask operator|(const Mask& a, const Mask& b) {
      return mask([&](i64 i) { return a.on[i] || b.on[i]; });
    }
    friend Mask operator!(const Mask& a) {
      return mask([&](i64 i) { return !a.on[i]; });
    }
  };
  S v[kLanes];

  /// Lane i = f(i).
  template <class F>
  LATHE_INLINE static Plain each(const F& f) {
    Plain r;
    for (i64 i = 0; i < kLanes; ++i) r.v[i] = f(i);
    return r;
  }
  template <class F>
  LATHE_INLINE static Mask mask(const F& f) {
    Mask m;
    for (i64 i = 0; i < kLanes; ++i) m.on[i] = f(i);
    return m;
  }

  template <class T>
  static Plain load(const T* p, i64 n = kLanes) {
    return each([&](i64 i) { return i < n ? read(p + i) : S{}; });
  }
  template <class T>
  void store(T* p, i64 n = kLanes) const {
    for (i64 i = 0; i < n; ++i) write(p + i, v[i]);
  }
  static Plain broadcast(S s) {
    return each([&](i64) { return s; });
  }
  static Mask first(i64 n) {
    return mask([&](i64 i) { return i < n; });
  }

  friend Plain operator+(const Plain& a, const Plain& b) {
    return each([&](i64 i) { return a.v[i] + b.v[i]; });
  }
  friend Plain operator-(const Plain& a, const Plain& b) {
    return each([&](i64 i) { return a.v[i] - b.v[i]; });
  }
  friend Plain operator*(const Plain& a, const Plain& b) {
    return each([&](i64 i) { return a.v[i] * b.v[i]; });
  }
  friend Plain operator/(const Plain& a, const Plain& b) {
    return each([&](i64 i) { return a.v[i] / b.v[i]; });
  }
  friend Plain operator-(const Plain& a) {
    return each([&](i64 i) { return -a.v[i]; });
  }
  friend Plain fma(const Plain& a, const Plain& b, const Plain& c) {
    return each([&](i64 i) {
      if constexpr (std::is_floating_point_v<S>)
        return std::fma(a.v[i], b.v[i], c.v[i]);
      else
        return a.v[i] * b.v[i] + c.v[i];
    });
  }
  friend Plain sqrt(const Plain& a) {
    return each([&](i64 i) { return std::sqrt(a.v[i]); });
  }

  friend Mask operator<(const Plain& a, const Plain& b) {
    return mask([&](i64 i) { return real_part(a.v[i]) < real_part(b.v[i]); });
  }
  friend Mask operator<=(const Plain& a, const Plain& b) {
    return mask([&](i64 i) { return real_part(a.v[i]) <= real_part(b.v[i]); });
  }
  friend Mask operator>(const Plain& a, const Plain& b) { return b < a; }
  friend Mask operator>=(const Plain& a, const Plain& b) { return b <= a; }
  friend Mask operator==(const Plain& a, const Plain& b) {
    return mask([&](i64 i) { return real_part(a.v[i]) == real_part(b.v[i]); });
  }
  friend Mask operator!=(const Plain& a, const Plain& b) { return !(a == b); }
  friend Plain select(const Mask& m, const Plain& a, const Plain& b) {
    return each([&](i64 i) { return m.on[i] ? a.v[i] : b.v[i]; });
  }
  friend Plain minus_abs(const Plain& a) {
    if constexpr (std::is_floating_point_v<S>)
      return each([&](i64 i) { return std::copysign(a.v[i], S{-1}); });
    else
      return select(a < broadcast(S{}), a, -a);
  }
  friend Plain min(const Plain& a, const Plain& b) { return select(a < b, a, b); }
  friend Plain max(const Plain& a, const Plain& b) { return select(a > b, a, b); }

  S sum() const {
    Plain t = *this;
    for (i64 half = kLanes / 2; half > 0; half /= 2)
      for (i64 i = 0; i < half; ++i) t.v[i] = t.v[i] + t.v[i + half];
    return t.v[0];
  }
  S hmax() const {
    Plain t = *this;
    for (i64 half = kLanes / 2; half > 0; half /= 2)
      for (i64 i = 0; i < half; ++i)
        t.v[i] = real_part(t.v[i]) > real_part(t.v[i + half]) ? t.v[i] : t.v[i + half];
    return t.v[0];
  }
  S lane0() const { return v[0]; }

  struct SquareSum {
    double acc[kLanes] = {};
    void add(const Plain& x) {
      for (i64 i = 0; i < kLanes; ++i) {
        const double d = x.v[i];
        acc[i] = std::fma(d, d, acc[i]);
      }
    }
    double total() const { return Plain<double>::load(acc).sum(); }
  };

  /// What exp reduces in place of x: x, or what exp_scaled cannot tell from it.
  friend Plain exp_domain(const Plain& x)
    requires kSingle
  {
    return x;
  }
  /// p * 2^n for e^x, where n = t - kExponentShift; 0 below kExpLowest, +inf above kExpHighest, NaN
  /// where x is.
  friend Plain exp_scaled(const Plain& p, const Plain& n, const Plain& t, const Plain& x)
    requires kSingle
  {
    (void)n;
    return each([&](i64 i) {
      if (x.v[i] != x.v[i]) return x.v[i];
      if (x.v[i] < kExpLowest) return 0.0F;
      if (x.v[i] > kExpHighest) return std::numeric_limits<float>::infinity();
      return std::bit_cast<float>(std::bit_cast<u32>(p.v[i]) + (std::bit_cast<u32>(t.v[i]) << 23));
    });
  }
  /// x = mantissa * 2^exponent, mantissa in [sqrt(1/2), sqrt(2)); x positive and normal.
  friend Plain split(const Plain& x, Plain& mantissa)
    requires kSingle
  {
    Plain exponent;
    for (i64 i = 0; i < kLanes; ++i) {
      const u32 u = std::bit_cast<u32>(x.v[i]);
      const i32 e = std::bit_cast<i32>(u - kRootHalfBits) >> 23;
      exponent.v[i] = static_cast<float>(e);
      mantissa.v[i] = std::bit_cast<float>(u - (std::bit_cast<u32>(e) << 23));
    }
    return exponent;
  }
  static constexpr u32 kRootHalfBits = 0x3f3504f3;  // of sqrt(1/2)

  friend Bits bits(const Plain& a)
    requires kSingle
  {
    return Bits::each([&](i64 i) { return std::bit_cast<u32>(a.v[i]); });
  }
  static Plain from(const Bits& b)
    requires kSingle
  {
    return each([&](i64 i) { return std::bit_cast<float>(b.v[i]); });
  }
  static Plain number(const Bits& b)
    requires kSingle
  {
    return each([&](i64 i) { return static_cast<float>(b.v[i]); });
  }
  friend Bits whole(const Plain& a)
    requires kSingle
  {
    return Bits::each([&](i64 i) {
      return a.v[i] < 0x1p31F ? static_cast<u32>(static_cast<i64>(a.v[i])) : 0x80000000u;
    });
  }
  template <int N>
  static Plain exchange(const Plain& a) {
    return each([&](i64 i) { return a.v[i ^ N]; });
  }
  template <int N>
  static Plain low_lanes(const Plain& a, const Plain& b) {
    return each([&](i64 i) { return (i & N) != 0 ? b.v[i ^ N] : a.v[i]; });
  }
  template <int N>
  static Plain high_lanes(const Plain& a, const Plain& b) {
    return each([&](i64 i) { return (i & N) != 0 ? b.v[i] : a.v[i ^ N]; });
  }
  void store_upper(bf16* p, i64 n = kLanes) const
    requires kSingle
  {
    for (i64 i = 0; i < n; ++i) p[i].bits = static_cast<u16>(std::bit_cast<u32>(v[i]) >> 16);
  }

 private:
  // Through memcpy: a kernel may write one type over another (cross_entropy does).
  template <class T>
  LATHE_INLINE static S read(const T* p) {
    T x;
    std::memcpy(&x, p, sizeof x);
    if constexpr (std::is_same_v<T, bf16>)
      return S{to_float(x)};
    else
      return S{x};
  }
  template <class T>
  LATHE_INLINE static void write(T* p, const S& s) {
    T x;
    if constexpr (std::is_same_v<T, bf16>)
      x = to_bf16(s);
    else
      x = static_cast<T>(s);
    std::memcpy(static_cast<void*>(p), &x, sizeof x);
  }
};

}  // namespace lathe::kernels
