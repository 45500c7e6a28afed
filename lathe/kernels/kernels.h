#pragma once
// All the engine can compute, as plain functions. A back end is one value of this type; the code
// above this folder calls through it and never asks which one it holds.

#include <string>
#include <string_view>
#include <vector>

#include "lathe/kernels/attention.h"
#include "lathe/kernels/encode.h"
#include "lathe/kernels/gemm.h"
#include "lathe/kernels/loss.h"
#include "lathe/kernels/norm.h"
#include "lathe/kernels/peak.h"
#include "lathe/kernels/pointwise.h"
#include "lathe/kernels/update.h"

namespace lathe::kernels {

struct Kernels {
  std::string_view name;
  GemmKernels gemm;
  AttentionKernels attention;
  NormKernels norm;
  PointwiseKernels pointwise;
  LossKernels loss;
  UpdateKernels update;
  EncodeKernels encode;
  PeakKernels peak;
};

const Kernels& ref();         // plain C++: the definition of right; the only one that knows f64
const Kernels& avx2();        // a copy of ref() with what AVX2 does better replaced
const Kernels& avx512();      // a copy of avx2(), likewise
const Kernels& avx512bf16();  // a copy of avx512() with VDPBF16PS in the products
const Kernels& amx();         // a copy of avx512bf16() with tiles in the products
const Kernels& dry();         // computes nothing: counts into Queue::work

/// One table and whether this machine runs it.
struct Candidate {
  const Kernels* table;
  std::string why_not;  // empty: usable
};

/// Best first, without dry().
const std::vector<Candidate>& candidates();

/// The table called `name`, or the best usable one for "auto". Throws Error when the name is not
/// known (with the nearest) or this machine cannot run it (with the reason).
const Kernels& select(const std::string& name);

/// "avx512 (amx passed over: no AMX-TILE on this CPU)": for the first line of a run.
std::string describe(const Kernels& chosen);

}  // namespace lathe::kernels
