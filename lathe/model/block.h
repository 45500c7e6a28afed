#pragma once
// One block: x + attention(norm(x)), then the same with the MLP.

#include <string>

#include "lathe/base/view.h"
#include "lathe/kernels/pointwise.h"
#include "lathe/model/attention.h"
#include "lathe/model/config.h"
#include "lathe/model/ctx.h"
#include "lathe/model/mlp.h"
#include "lathe/model/norm.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

/// What backward recomputes instead of keeping.
enum class Recompute : u8 { none, attention, block };

struct Block {
  Norm norm1, norm2;
  Attention attention;
  Mlp mlp;

  /// What backward reads: all of it, after forward and restore with the same Recompute.
  struct Saved {
    ConstTensor x;  // (R, C) the block's input, which the caller keeps
    Norm::Saved norm1;
    Attention::Saved attention;
    Tensor middle;  // (R, C) the residual stream between the halves
    Norm::Saved norm2;
    Mlp::Saved mlp;
  };

  /// The parameters `name`.norm1.gain, `name`.attn.qkv, …
  static Block of(const parallel::ParamSet& p, const std::string& name, const ModelConfig& m);

  /// out (R, C) = the block of s.x; out may be s.x where nothing is to come back. Takes from c.keep
  /// what `r` says stays until backward.
  void forward(Ctx& c, const Tensor& out, Saved& s, const kernels::Places& at, Recompute r) const;
  /// Fills in, from c.temp, what forward did not keep. The same bits, as the same calls make them.
  void restore(Ctx& c, Saved& s, const kernels::Places& at, Recompute r) const;
  /// dx (R, C) holds the gradient of the output, and then that of the input. Spends `s`.
  void backward(Ctx& c, const Tensor& dx, const Saved& s, const kernels::Places& at) const;

 private:
  void attend(Ctx& c, Saved& s, const kernels::Places& at) const;
  void feed(Ctx& c, Saved& s) const;
};

}  // namespace lathe::model
