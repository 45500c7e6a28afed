#pragma once
// Matrix products of encoded operands. One entry: which format, scales, layout and destination are
// meant is data, and the back end switches on them once.

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/numerics/format.h"

namespace lathe::kernels {

/// Which dimension of the stored matrix a product sums over.
enum class Along : u8 {
  cols,  // stored (outer, summed): each row is one vector of the product
  rows,  // stored (summed, outer): each column is
};

/// An operand as it is multiplied: codes, their format, and the scales that go with them.
struct Operand {
  ConstTensor data;
  numerics::Format format = numerics::Format::bf16;
  Along along = Along::cols;
  // FP32, multiplied onto the sums: entry (i / scale_outer, k / scale_depth) belongs to element k
  // of vector i; a 0 stands for one entry for all. Scales that are part of the elements are not
  // here.
  ConstTensor scales = {};  // empty: 1
  i64 scale_outer = 0, scale_depth = 0;

  LATHE_INLINE i64 outer() const { return along == Along::cols ? data.rows : data.cols; }
  LATHE_INLINE i64 summed() const { return along == Along::cols ? data.cols : data.rows; }
};

/// What happens to a sum before it is stored.
struct Epilogue {
  bool add = false;       // add to c (master or residual type) rather than overwrite it
  ConstTensor bias = {};  // (1, N) in the master type, added to every row; empty: none
};

struct GemmKernels {
  /// c (M, N) = [c +] a b^T [+ bias]:  c[m,n] = sum over k of a[m,k] b[n,k].
  /// a and b have formats of one storage type (numerics/format.h) and the same K = summed(); c is
  /// of any float type, of any stride, and overlaps nothing. M, N, K >= 1, no multiple of anything
  /// asked for.
  ///
  /// With scales on either side, K is cut into chunks of scale_depth elements (a multiple of 32;
  /// where a and b differ one of them is 0; both 0: one chunk), each summed from +0 as below, and
  /// acc = fma(chunk, scale of a * scale of b, acc) in ascending order, acc starting as below. So a
  /// chunk's sum and the product of two scales are rounded on their own, and nothing else is.
  ///
  /// Order of the sum (docs/numerics.md), the same in every table, for every M, N and thread count:
  /// * elements stored as bf16: K in groups of 32, the last filled up with zeros. In a group, e =
  /// fma over the even k
  ///   in ascending order from +0, o = the same over the odd k; then acc = acc + (e + o), all in
  ///   f32 with subnormals as zero. With `add`, acc starts as c read as f32, else as +0: so two
  ///   calls over K1 and K2 (K1 a multiple of 32, c f32) give the bits of one over K1 + K2.
  /// * as f32: acc = fma(a[m,k], b[n,k], acc) in ascending k, acc starting as above; f64 likewise.
  /// Then bias is added in f32 (f64), and the result rounded once to c's type, to nearest even.
  void (*product)(Queue&, const Tensor& c, const Operand& a, const Operand& b,
                  const Epilogue& e) noexcept;
};

}  // namespace lathe::kernels
