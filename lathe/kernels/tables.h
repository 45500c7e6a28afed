#pragma once
// What each folder of kernels exports: one function per family, which overwrites the entries of a
// table that it does better. select.cpp builds the tables from them.

namespace lathe::kernels {

struct Kernels;

namespace ref_impl {
void add_encode(Kernels& k);
void add_norm(Kernels& k);
void add_pointwise(Kernels& k);
void add_loss(Kernels& k);
void add_update(Kernels& k);
void add_attention(Kernels& k);
void add_gemm(Kernels& k);
}  // namespace ref_impl

namespace avx2_impl {
void add_encode(Kernels& k);
void add_norm(Kernels& k);
void add_pointwise(Kernels& k);
void add_loss(Kernels& k);
void add_update(Kernels& k);
void add_gemm(Kernels& k);
void add_attention(Kernels& k);
void add_peak(Kernels& k);
}  // namespace avx2_impl

namespace avx512_impl {
void add_encode(Kernels& k);
void add_norm(Kernels& k);
void add_pointwise(Kernels& k);
void add_loss(Kernels& k);
void add_update(Kernels& k);
void add_gemm(Kernels& k);
void add_attention(Kernels& k);
void add_peak(Kernels& k);
}  // namespace avx512_impl

namespace avx512bf16_impl {
void add_gemm(Kernels& k);
void add_attention(Kernels& k);
void add_peak(Kernels& k);
}  // namespace avx512bf16_impl

namespace amx_impl {
void add_gemm(Kernels& k);
void add_attention(Kernels& k);
void add_peak(Kernels& k);
}  // namespace amx_impl

}  // namespace lathe::kernels
