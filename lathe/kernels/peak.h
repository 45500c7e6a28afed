#pragma once
// The top of every scale: loops of multiply-adds whose operands stay in registers.

namespace lathe::kernels {

/// A loop over the instruction that a table's products are made of, on random bits of ordinary
/// size, since matrix hardware slows down on them. Some ten microseconds.
struct PeakLoop {
  void (*run)() noexcept = nullptr;  // null: none is known
  double operations = 0;             // of one run
  const char* instruction = "";
};

struct PeakKernels {
  PeakLoop f32, bf16;  // by the format of the operands
};

inline constexpr int kPeakRounds = 2000;

}  // namespace lathe::kernels
