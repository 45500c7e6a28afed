#pragma once
// Bytes that a parameter of a run takes, part by part, as published comparisons of recipes count
// them: a weight in the bits of its format, every copy that a product needs, and no padding. What
// this engine holds may be more: operands lie in the type that products read.

#include <string>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/numerics/encoding.h"
#include "lathe/train/config.h"

namespace lathe::plan {

struct ParameterBytes {
  std::string name;  // matrices, embeddings, vectors, all
  i64 parameters = 0;
  i64 weights = 0;  // as products read them, or as they are looked up
  i64 masters = 0;  // where these are apart from the weights
  i64 gradients = 0;
  i64 moments = 0;
  i64 scales = 0;  // of weights and moments

  i64 total() const { return weights + masters + gradients + moments + scales; }
};

/// Bytes of one encoded copy of a matrix, and those of its scales. A scale of a square block is
/// counted for every vector in it, as hardware wants it.
struct CopyBytes {
  i64 elements = 0, scales = 0;
};
CopyBytes copy_bytes(const numerics::Encoding& e, i64 rows, i64 cols);

/// Matrices, embeddings with positions, gains with biases, and all together. `c` is resolved.
std::vector<ParameterBytes> bytes_per_parameter(const train::RunConfig& c);

/// Masters, moments and their scales: what a checkpoint holds.
i64 saved_bytes(const train::RunConfig& c);

/// The table as lines of text. `held`: bytes of weights, gradients and state in this engine.
std::string parameter_table(const train::RunConfig& c, i64 held);

}  // namespace lathe::plan
