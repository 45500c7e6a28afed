// The table of a dry run: touches no data, counts what a real run would compute and move.

#include <algorithm>
#include <bit>
#include <initializer_list>

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/kernels/attention.h"
#include "lathe/kernels/encode.h"
#include "lathe/kernels/gemm.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/pointwise.h"
#include "lathe/kernels/update.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"

namespace lathe::kernels {

namespace {

double real(i64 n) { return static_cast<double>(n); }

/// Every tensor is read or written once; `each` operations on each element of the first.
void count(Queue& q, i64 each, std::initializer_list<ConstTensor> tensors) {
  q.work.other_flops += real(each) * real(tensors.begin()->size());
  for (const ConstTensor& t : tensors) q.work.bytes += real(t.bytes());
}

void product(Queue& q, const Tensor& c, const Operand& a, const Operand& b,
             const Epilogue& e) noexcept {
  q.work.product_flops += 2 * real(a.outer()) * real(b.outer()) * real(a.summed());
  count(q, 0, {c, a.data, b.data, a.scales, b.scales, e.bias});
  if (e.add) q.work.bytes += real(c.bytes());
}

void attention_forward(Queue& q, const Tensor& out, const Tensor& lse, const ConstTensor& qkv,
                       const Places& at, const AttentionShape& s) noexcept {
  const i64 pairs = at.batch * s.heads * visible_pairs(at.time, s.window);
  q.work.attention_flops += 2 * 2 * real(s.head_dim) * real(pairs);
  q.work.other_flops += 4 * real(pairs);
  count(q, 0, {out, lse, qkv});
}

// Four products make the gradient. That the scores are computed again is the kernel's own affair
// and not counted, as in most published counts.
void attention_backward(Queue& q, const Tensor& dqkv, const ConstTensor& dout,
                        const ConstTensor& out, const ConstTensor& lse, const ConstTensor& qkv,
                        const Places& at, const AttentionShape& s) noexcept {
  const i64 pairs = at.batch * s.heads * visible_pairs(at.time, s.window);
  q.work.attention_flops += 4 * 2 * real(s.head_dim) * real(pairs);
  q.work.other_flops += 6 * real(pairs);
  count(q, 0, {dqkv, dout, out, lse, qkv});
}

void attention_decode(Queue& q, const Tensor& out, const ConstTensor& query,
                      const ConstTensor& keys, const ConstTensor& values, i64 length,
                      const AttentionShape& s) noexcept {
  const i64 pairs = s.heads * (s.window > 0 ? std::min(s.window, length) : length);
  q.work.attention_flops += 2 * 2 * real(s.head_dim) * real(pairs);
  q.work.other_flops += 4 * real(pairs);
  count(q, 0, {out, query, keys.slice_rows(0, length), values.slice_rows(0, length)});
}

void rms_forward(Queue& q, const Tensor& y, const Tensor& rstd, const ConstTensor& x,
                 const ConstTensor& w, double) noexcept {
  count(q, 4, {y, rstd, x, w});
}

void rms_backward(Queue& q, const Tensor& dx, const Tensor& dw, const ConstTensor& dy,
                  const ConstTensor& x, const ConstTensor& w, const ConstTensor& rstd,
                  bool add) noexcept {
  count(q, 9, {dx, dw, dw, dy, x, w, rstd});
  if (add) q.work.bytes += real(dx.bytes());
}

void layer_forward(Queue& q, const Tensor& y, const Tensor& mean, const Tensor& rstd,
                   const ConstTensor& x, const ConstTensor& w, const ConstTensor& b,
                   double) noexcept {
  count(q, 7, {y, mean, rstd, x, w, b});
}

void layer_backward(Queue& q, const Tensor& dx, const Tensor& dw, const Tensor& db,
                    const ConstTensor& dy, const ConstTensor& x, const ConstTensor& w,
                    const ConstTensor& mean, const ConstTensor& rstd, bool add) noexcept {
  count(q, 12, {dx, dw, dw, db, db, dy, x, w, mean, rstd});
  if (add) q.work.bytes += real(dx.bytes());
}

void gelu_forward(Queue& q, const Tensor& y, const ConstTensor& x) noexcept {
  count(q, 15, {y, x});
}

void gelu_backward(Queue& q, const Tensor& dx, const ConstTensor& dy,
                   const ConstTensor& x) noexcept {
  count(q, 25, {dx, dy, x});
}

void swiglu_forward(Queue& q, const Tensor& y, const ConstTensor& x) noexcept {
  count(q, 10, {y, x});
}

void swiglu_backward(Queue& q, const Tensor& dx, const ConstTensor& dy,
                     const ConstTensor& x) noexcept {
  count(q, 10, {dx, dy, x});
}

void rope(Queue& q, const Tensor& x, i64 heads, i64 head_dim, const ConstTensor& angles,
          const Places&, i64, int) noexcept {
  const ConstTensor turned = x.slice_cols(0, heads * head_dim);
  count(q, 3, {turned, turned, angles});
}

void rope_angles(Queue& q, const Tensor& angles, double) noexcept { count(q, 20, {angles}); }

void add_column_sums(Queue& q, const Tensor& y, const ConstTensor& x) noexcept {
  count(q, 1, {x, y, y});
}

void convert(Queue& q, const Tensor& y, const ConstTensor& x) noexcept { count(q, 0, {y, x}); }

void add(Queue& q, const Tensor& y, const ConstTensor& x) noexcept { count(q, 1, {y, y, x}); }

void zero(Queue& q, const Tensor& y) noexcept { count(q, 0, {y}); }

// A row of the table is read or written for each token, whatever the size of the table.
void embed_forward(Queue& q, const Tensor& y, const i32*, const ConstTensor& token,
                   const ConstTensor& position, const Places&) noexcept {
  count(q, position.empty() ? 0 : 1, {y});
  q.work.bytes += real(y.size() * size_of(token.type) * (position.empty() ? 1 : 2));
}

void embed_backward(Queue& q, const Tensor& dtoken, const Tensor& dposition, const i32*,
                    const ConstTensor& dy, const Places&) noexcept {
  const i64 tables = dposition.empty() ? 1 : 2;
  count(q, tables, {dy});
  q.work.bytes += 2 * real(dy.size() * size_of(dtoken.type) * tables);
}

void cross_entropy(Queue& q, const Tensor& losses, const Tensor& dlogits, const ConstTensor& logits,
                   const i32*, i64, double) noexcept {
  count(q, 6, {logits, losses, dlogits});
}

void add_losses(Queue& q, const Tensor& total, const ConstTensor& losses) noexcept {
  count(q, 1, {losses, total});
}

void adamw(Queue& q, const Tensor& w, const Moment& m, const Moment& v, const ConstTensor& grad,
           const AdamW&, const Draws&) noexcept {
  count(q, 14, {w, w, grad});
  for (const Moment* x : {&m, &v}) count(q, 0, {x->values, x->values, x->scales, x->scales});
}

void sum_squares(Queue& q, const Tensor& sum, const ConstTensor& x) noexcept {
  count(q, 2, {x, sum});
}

// A tensor whose scale comes from all of it is read twice.
void encode(Queue& q, const Tensor& codes, const Tensor& scales, const ConstTensor& x,
            const numerics::Encoding& e, Along, const Draws&, const Tensor&) noexcept {
  const i64 transform = e.hadamard == 0 ? 0 : std::bit_width(static_cast<u64>(e.hadamard));
  count(q, 4 + transform, {codes, scales, x});
  if (numerics::spans_tensor(e) || e.scaling == numerics::Scaling::row)
    q.work.bytes += real(x.bytes());
}

void fidelity(Queue& q, const Tensor& sums, const ConstTensor& x, const numerics::Encoding&, Along,
              const Draws&, const Tensor&) noexcept {
  count(q, 10, {x, sums});
}

void update_history(Queue& q, const Tensor& history, numerics::Format, int, bool) noexcept {
  count(q, 1, {history, history});
}

}  // namespace

const Kernels& dry() {
  static constexpr Kernels kTable{
      .name = "dry",
      .gemm = {product},
      .attention = {attention_forward, attention_backward, attention_decode},
      .norm = {rms_forward, rms_backward, layer_forward, layer_backward},
      .pointwise = {gelu_forward, gelu_backward, swiglu_forward, swiglu_backward, rope, rope_angles,
                    add_column_sums, convert, add, zero, embed_forward, embed_backward},
      .loss = {cross_entropy, add_losses},
      .update = {adamw, sum_squares},
      .encode = {encode, fidelity, update_history},
      .peak = {},
  };
  return kTable;
}

}  // namespace lathe::kernels
