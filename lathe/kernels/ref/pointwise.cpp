#include <cmath>

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/kernels/pointwise_rows.h"
#include "lathe/kernels/row_work.h"
#include "lathe/kernels/tables.h"

namespace lathe::kernels::ref_impl {

namespace {

template <class S>
void fill_angles(Queue& q, const Tensor& angles, double theta) {
  const i64 half = angles.cols / 2;
  for_rows<Plain<S>>(q, angles.rows, angles.cols, [&](i64 t) {
    S* a = angles.row<S>(t);
    for (i64 i = 0; i < half; ++i) {
      const double frequency =
          std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(angles.cols));
      const double angle = static_cast<double>(t) * frequency;
      a[i] = static_cast<S>(std::cos(angle));
      a[half + i] = static_cast<S>(std::sin(angle));
    }
  });
}

/// Once a run, and by the C library in every table.
void rope_angles(Queue& q, const Tensor& angles, double theta) noexcept {
  if (angles.type == DType::f64)
    fill_angles<double>(q, angles, theta);
  else
    fill_angles<float>(q, angles, theta);
}

}  // namespace

void add_pointwise(Kernels& k) {
  set_pointwise<Plain<double>>(k.pointwise);
  set_pointwise<Plain<float>>(k.pointwise);
  k.pointwise.rope_angles = rope_angles;
}

}  // namespace lathe::kernels::ref_impl
