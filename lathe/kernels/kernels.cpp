#include "lathe/kernels/kernels.h"

#include <initializer_list>
#include <string_view>

#include "lathe/kernels/tables.h"

namespace lathe::kernels {

namespace {

/// A copy of `base` under another name, for each `add` to overwrite its family's entries.
Kernels derive(const Kernels& base, std::string_view name,
               std::initializer_list<void (*)(Kernels&)> adds) {
  Kernels k = base;
  k.name = name;
  for (const auto add : adds) add(k);
  return k;
}

}  // namespace

const Kernels& ref() {
  static const Kernels table =
      derive(Kernels{}, "ref",
             {ref_impl::add_norm, ref_impl::add_pointwise, ref_impl::add_loss, ref_impl::add_update,
              ref_impl::add_gemm, ref_impl::add_attention, ref_impl::add_encode});
  return table;
}

const Kernels& avx2() {
  static const Kernels table = derive(
      ref(), "avx2",
      {avx2_impl::add_norm, avx2_impl::add_pointwise, avx2_impl::add_loss, avx2_impl::add_update,
       avx2_impl::add_gemm, avx2_impl::add_attention, avx2_impl::add_encode, avx2_impl::add_peak});
  return table;
}

const Kernels& avx512() {
  static const Kernels table =
      derive(avx2(), "avx512",
             {avx512_impl::add_norm, avx512_impl::add_pointwise, avx512_impl::add_loss,
              avx512_impl::add_update, avx512_impl::add_gemm, avx512_impl::add_attention,
              avx512_impl::add_encode, avx512_impl::add_peak});
  return table;
}

const Kernels& avx512bf16() {
  static const Kernels table = derive(
      avx512(), "avx512bf16",
      {avx512bf16_impl::add_gemm, avx512bf16_impl::add_attention, avx512bf16_impl::add_peak});
  return table;
}

const Kernels& amx() {
  static const Kernels table = derive(
      avx512bf16(), "amx", {amx_impl::add_gemm, amx_impl::add_attention, amx_impl::add_peak});
  return table;
}

}  // namespace lathe::kernels
