#pragma once
// What each folder of kernels exports: one function per family, which overwrites the entries of a
// table that it does better. select.cpp builds the tables from them.

namespace lathe::kernels {

struct Kernels;

namespace ref_impl {
void add_gemm(Kernels& k);
}  // namespace ref_impl

}  // namespace lathe::kernels
