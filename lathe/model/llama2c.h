#pragma once
// Reads the first .bin format of the llama2.c program: seven 32-bit numbers, then float32 weights.

#include <string>

#include "lathe/base/file.h"
#include "lathe/model/config.h"
#include "lathe/parallel/params.h"

namespace lathe::model {

class Llama2c {
 public:
  /// Maps the file. Throws Error when it is missing, or its sizes do not fit one another or the
  /// file's length.
  explicit Llama2c(const std::string& path);

  /// Resolved and checked.
  const ModelConfig& config() const { return config_; }
  /// Fills the masters of a set made from config(). That format turns neighbouring elements of a
  /// head, this engine its halves (kernels/pointwise.h): rows of queries and keys are put in order.
  void read_weights(parallel::ParamSet& p) const;

 private:
  MappedFile file_;
  ModelConfig config_;
};

}  // namespace lathe::model
