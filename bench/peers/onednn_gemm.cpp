#include <fmt/format.h>
#include <omp.h>

#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "bench/peer_gemm.h"

namespace lathe::bench {
namespace {

using Desc = dnnl::memory::desc;

dnnl::memory::data_type type_of(DType t) {
  return t == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

/// An operand as rows x cols of the product, wherever its elements lie.
Desc operand_desc(const kernels::Operand& x, bool is_a) {
  const bool outer_first = x.along == kernels::Along::cols;
  const i64 outer_step = outer_first ? x.data.stride : 1, k_step = outer_first ? 1 : x.data.stride;
  if (is_a) return Desc({x.outer(), x.summed()}, type_of(x.data.type), {outer_step, k_step});
  return Desc({x.summed(), x.outer()}, type_of(x.data.type), {k_step, outer_step});
}

class OneDnn final : public PeerProduct {
 public:
  OneDnn(const Tensor& c, const kernels::Operand& a, const kernels::Operand& b, bool add)
      : engine_(dnnl::engine::kind::cpu, 0),
        stream_(engine_),
        a_(operand_desc(a, true), engine_, const_cast<void*>(a.data.data)),
        b_(operand_desc(b, false), engine_, const_cast<void*>(b.data.data)),
        c_(Desc({c.rows, c.cols}, type_of(c.type), {c.stride, 1}), engine_, c.data) {
    const auto any = [](const dnnl::memory& x) {
      return Desc(x.get_desc().dims(), x.get_desc().data_type(), dnnl::memory::format_tag::any);
    };
    dnnl::primitive_attr attributes;
    if (add) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::primitive_desc d({any(a_), any(b_), c_.get_desc()}, attributes, engine_);
    matmul_ = dnnl::matmul(d);
    prepared_a_ = d.src_desc() == a_.get_desc() ? a_ : dnnl::memory(d.src_desc(), engine_);
    prepared_b_ = d.weights_desc() == b_.get_desc() ? b_ : dnnl::memory(d.weights_desc(), engine_);
    if (prepared_a_ != a_) reorder_a_ = dnnl::reorder(a_, prepared_a_);
    if (prepared_b_ != b_) reorder_b_ = dnnl::reorder(b_, prepared_b_);
  }
  void prepare() override {
    if (reorder_a_) reorder_a_.execute(stream_, a_, prepared_a_);
    if (reorder_b_) reorder_b_.execute(stream_, b_, prepared_b_);
    stream_.wait();
  }
  void multiply() override {
    matmul_.execute(
        stream_,
        {{DNNL_ARG_SRC, prepared_a_}, {DNNL_ARG_WEIGHTS, prepared_b_}, {DNNL_ARG_DST, c_}});
    stream_.wait();
  }

 private:
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::memory a_, b_, c_, prepared_a_, prepared_b_;
  dnnl::reorder reorder_a_, reorder_b_;
  dnnl::matmul matmul_;
};

}  // namespace

std::unique_ptr<PeerProduct> peer_product(const Tensor& c, const kernels::Operand& a,
                                          const kernels::Operand& b, bool add, int threads) {
  omp_set_num_threads(threads);
  return std::make_unique<OneDnn>(c, a, b, add);
}

std::string peer_name() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", v->major, v->minor, v->patch);
}

}  // namespace lathe::bench
