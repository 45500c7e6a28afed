#include "lathe/base/cpu.h"

#include <cpuid.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "lathe/base/view.h"

namespace lathe {

namespace {

struct Leaf {
  u32 eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Leaf cpuid(u32 leaf, u32 subleaf = 0) {
  Leaf l;
  if (!__get_cpuid_count(leaf, subleaf, &l.eax, &l.ebx, &l.ecx, &l.edx)) return {};
  return l;
}

bool bit(u32 word, int n) { return ((word >> n) & 1u) != 0; }

/// Which register files the operating system saves on a switch of threads.
u64 saved_state(const Leaf& leaf1) {
  if (!bit(leaf1.ecx, 27)) return 0;  // OSXSAVE
  u32 low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (u64{high} << 32) | low;
}

std::string model_name() {
  if (cpuid(0x80000000).eax < 0x80000004) return "unknown";
  std::array<char, 49> text{};
  for (u32 i = 0; i < 3; ++i) {
    const Leaf l = cpuid(0x80000002 + i);
    std::memcpy(text.data() + 16 * i, &l, 16);
  }
  std::string name = text.data();
  name.erase(0, name.find_first_not_of(' '));
  name.erase(name.find_last_not_of(' ') + 1);
  return name.empty() ? "unknown" : name;
}

i64 cache_bytes(int name) { return std::max(0L, sysconf(name)); }

Cpu read_cpu() {
  Cpu c{};
  const Leaf vendor = cpuid(0), l1 = cpuid(1), l7 = cpuid(7), l7_1 = cpuid(7, 1);
  std::array<char, 13> text{};
  std::memcpy(text.data(), &vendor.ebx, 4);
  std::memcpy(text.data() + 4, &vendor.edx, 4);
  std::memcpy(text.data() + 8, &vendor.ecx, 4);
  c.vendor = text.data();
  c.model = model_name();
  c.fma = bit(l1.ecx, 12);
  c.avx2 = bit(l7.ebx, 5);
  c.avx512f = bit(l7.ebx, 16);
  c.avx512dq = bit(l7.ebx, 17);
  c.avx512bw = bit(l7.ebx, 30);
  c.avx512vl = bit(l7.ebx, 31);
  c.amx_bf16 = bit(l7.edx, 22);
  c.amx_tile = bit(l7.edx, 24);
  c.avx512_bf16 = bit(l7_1.eax, 5);
  const u64 saved = saved_state(l1);
  c.saves_ymm = (saved & 0x6) == 0x6;
  c.saves_zmm = (saved & 0xe6) == 0xe6;
  c.saves_tiles = (saved & 0x60000) == 0x60000;
  c.l1_data = cache_bytes(_SC_LEVEL1_DCACHE_SIZE);
  c.l2 = cache_bytes(_SC_LEVEL2_CACHE_SIZE);
  c.l3 = cache_bytes(_SC_LEVEL3_CACHE_SIZE);
  return c;
}

/// Tile registers are 8 KB a thread, which Linux saves only for processes that asked for it
/// (Documentation/arch/x86/xstate.rst).
std::string ask_for_tiles() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0) return {};
  return fmt::format("the kernel refuses AMX: {}", std::strerror(errno));
}

std::string find_why_not(Isa isa) {
  const Cpu& c = cpu();
  const auto missing = [](const char* what) { return fmt::format("no {} on this CPU", what); };
  const auto unsaved = [](const char* what) {
    return fmt::format("the operating system does not save {}", what);
  };
  switch (isa) {
    case Isa::baseline:
      return {};
    case Isa::avx2:
      if (!c.avx2) return missing("AVX2");
      if (!c.fma) return missing("FMA");
      return c.saves_ymm ? std::string{} : unsaved("AVX registers");
    case Isa::avx512:
      if (!c.avx512f) return missing("AVX-512");
      if (!c.avx512bw || !c.avx512dq || !c.avx512vl) return missing("AVX-512 BW, DQ and VL");
      if (!c.saves_zmm) return unsaved("AVX-512 registers");
      return why_not(Isa::avx2);
    case Isa::avx512bf16:
      if (!why_not(Isa::avx512).empty()) return why_not(Isa::avx512);
      return c.avx512_bf16 ? std::string{} : missing("AVX512-BF16");
    case Isa::amx:
      if (!c.amx_tile) return missing("AMX-TILE");
      if (!c.amx_bf16) return missing("AMX-BF16");
      if (!c.saves_tiles) return unsaved("AMX tiles");
      if (!why_not(Isa::avx512bf16).empty()) return why_not(Isa::avx512bf16);
      return ask_for_tiles();
  }
  return {};
}

/// The cgroup v2 folder of this process, under where the hierarchy is mounted.
std::string cgroup_folder() {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("0::")) return "/sys/fs/cgroup" + line.substr(3);
  return {};
}

/// The smallest quota from this process's cgroup up to the root; 0: none.
int cgroup_cores() {
  int least = 0;
  for (std::string folder = cgroup_folder(); folder.starts_with("/sys/fs/cgroup");
       folder.erase(folder.rfind('/'))) {
    std::string text;
    std::ifstream in(folder + "/cpu.max");
    if (std::getline(in, text)) {
      const int cores = cores_of_quota(text);
      if (cores > 0) least = least == 0 ? cores : std::min(least, cores);
    }
  }
  return least;
}

}  // namespace

const Cpu& cpu() {
  static const Cpu c = read_cpu();
  return c;
}

const std::string& why_not(Isa isa) {
  switch (isa) {
    case Isa::avx2: {
      static const std::string s = find_why_not(Isa::avx2);
      return s;
    }
    case Isa::avx512: {
      static const std::string s = find_why_not(Isa::avx512);
      return s;
    }
    case Isa::avx512bf16: {
      static const std::string s = find_why_not(Isa::avx512bf16);
      return s;
    }
    case Isa::amx: {
      static const std::string s = find_why_not(Isa::amx);
      return s;
    }
    default: {
      static const std::string s;
      return s;
    }
  }
}

int usable_cores() {
  // A mask larger than cpu_set_t is refused: then every online core counts.
  cpu_set_t mask;
  CPU_ZERO(&mask);
  const bool known = sched_getaffinity(0, sizeof mask, &mask) == 0;
  int cores = known ? CPU_COUNT(&mask) : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  if (const int quota = cgroup_cores(); quota > 0) cores = std::min(cores, quota);
  return std::max(cores, 1);
}

int cores_of_quota(std::string_view cpu_max) {
  const std::size_t space = cpu_max.find(' ');
  if (space == std::string_view::npos) return 0;
  const auto number = [](std::string_view s) {
    i64 n = 0;
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), n);
    return error == std::errc{} && end == s.data() + s.size() && n > 0 ? n : 0;
  };
  const i64 quota = number(cpu_max.substr(0, space)), period = number(cpu_max.substr(space + 1));
  if (quota == 0 || period == 0) return 0;
  return static_cast<int>(std::min<i64>((quota - 1) / period + 1, 1 << 20));
}

}  // namespace lathe
