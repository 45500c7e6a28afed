#pragma once
// AMX's attention over tile registers modelled in plain C++. Runs wherever AVX512-BF16 does.

#include "lathe/kernels/attention.h"

namespace lathe::kernels {

AttentionKernels emulated_amx_attention();

}  // namespace lathe::kernels
