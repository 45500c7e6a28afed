#include "lathe/kernels/kernels.h"

#include "lathe/kernels/tables.h"

namespace lathe::kernels {

namespace {

/// A copy of `base` under another name, for `add` to overwrite.
template <class Add>
Kernels derive(const Kernels& base, std::string_view name, Add add) {
  Kernels k = base;
  k.name = name;
  add(k);
  return k;
}

}  // namespace

const Kernels& ref() {
  static const Kernels table = derive(Kernels{}, "ref", [](Kernels& k) { ref_impl::add_gemm(k); });
  return table;
}

const Kernels& avx2() {
  static const Kernels table = derive(ref(), "avx2", [](Kernels&) {});
  return table;
}

const Kernels& avx512() {
  static const Kernels table = derive(avx2(), "avx512", [](Kernels&) {});
  return table;
}

const Kernels& avx512bf16() {
  static const Kernels table = derive(avx512(), "avx512bf16", [](Kernels&) {});
  return table;
}

const Kernels& amx() {
  static const Kernels table = derive(avx512bf16(), "amx", [](Kernels&) {});
  return table;
}

}  // namespace lathe::kernels
