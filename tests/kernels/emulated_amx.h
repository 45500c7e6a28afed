#pragma once
// AMX's product over tile registers modelled in plain C++. Runs wherever AVX512-BF16 does.

#include "lathe/kernels/gemm.h"

namespace lathe::kernels {

decltype(GemmKernels::product) emulated_amx_product();

}  // namespace lathe::kernels
