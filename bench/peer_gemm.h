#pragma once
// The same products by oneDNN, where it is installed (libdnnl-dev).

#include <memory>
#include <string>

#include "lathe/kernels/gemm.h"

namespace lathe::bench {

class PeerProduct {
 public:
  virtual ~PeerProduct() = default;
  /// Puts both operands into the layout that the peer prefers.
  virtual void prepare() = 0;
  virtual void multiply() = 0;
};

/// c = [c +] a b^T on `threads` threads; null where no peer is built in. The operands must outlive
/// it.
std::unique_ptr<PeerProduct> peer_product(const Tensor& c, const kernels::Operand& a,
                                          const kernels::Operand& b, bool add, int threads);

/// "oneDNN 2.6.0", or that there is none.
std::string peer_name();

}  // namespace lathe::bench
