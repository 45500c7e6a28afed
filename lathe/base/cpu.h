#pragma once
// What this processor, this kernel and this process's share of the machine allow.

#include <string>
#include <string_view>

#include "lathe/base/view.h"

namespace lathe {

/// An instruction set as the kernels are built for it, each holding the ones before it. The names
/// are the folders of lathe/kernels.
enum class Isa : u8 { baseline, avx2, avx512, avx512bf16, amx };

struct Cpu {
  std::string vendor;  // "AuthenticAMD", "GenuineIntel"
  std::string model;   // "AMD EPYC 9654 96-Core Processor"
  // Instructions, as CPUID tells them.
  bool avx2, fma, avx512f, avx512bw, avx512dq, avx512vl, avx512_bf16, amx_tile, amx_bf16;
  // Registers that the operating system saves, as XCR0 tells them.
  bool saves_ymm, saves_zmm, saves_tiles;
  // Bytes of the caches that one core sees; 0: not told.
  i64 l1_data, l2, l3;
};

/// Read once; the same for the whole run.
const Cpu& cpu();

/// Why this process cannot run code for `isa`: "no AMX-TILE on this CPU". Empty: it can. The first
/// question about amx asks the kernel to let this process, and all threads it starts later, use
/// tile registers.
const std::string& why_not(Isa isa);

/// Cores this process may keep busy: its affinity mask, cut down by a cgroup's CPU quota. At least
/// 1.
int usable_cores();

/// CPUs that a cgroup v2 "cpu.max" ("quota period", or "max period") grants, rounded up; 0: no
/// limit, or not understood.
int cores_of_quota(std::string_view cpu_max);

}  // namespace lathe
