#include "lathe/plan/machine.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "lathe/base/cpu.h"
#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"

namespace lathe::plan {

namespace {

std::optional<std::string> text_of(const std::string& path) {
  try {
    return exists(path) ? std::optional(read_file(path)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;  // what cannot be read is not told
  }
}

/// The number at the start of a text; -1 for "max" or anything else.
i64 number(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return -1;
  i64 n = -1;
  const auto r = std::from_chars(text.data() + begin, text.data() + text.size(), n);
  return r.ec == std::errc{} ? n : -1;
}

/// The number behind `key` at a line's start; -1 when there is none.
i64 field(std::string_view text, std::string_view key) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (line.starts_with(key)) return number(line.substr(key.size()));
    begin = end + 1;
  }
  return -1;
}

/// The path behind a prefix in /proc/self/cgroup, such as "0::" for version 2.
std::optional<std::string> group_path(std::string_view text, std::string_view marker) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    const std::size_t at = line.find(marker);
    if (at != std::string_view::npos) return std::string(line.substr(at + marker.size()));
    begin = end + 1;
  }
  return std::nullopt;
}

/// Takes the limit of one cgroup folder into account when it leaves less.
void narrow(Memory& m, i64 limit, i64 used, i64 droppable) {
  // Version 1 says "no limit" by a number near 2^63.
  constexpr i64 kNone = i64{1} << 60;
  if (limit < 0 || limit >= kNone || used < 0) return;
  const i64 left = std::max<i64>(0, limit - (used - std::max<i64>(0, droppable)));
  if (m.group_left >= 0 && m.group_left <= left) return;
  m.group_limit = limit;
  m.group_left = left;
}

struct GroupFiles {
  const char *limit, *used, *droppable;
};

/// A process in /a/b is held by the limits of /a/b, /a and /. In a container the path that the
/// kernel tells may not exist below the mount: then the mount itself is the group.
void narrow_upwards(Memory& m, const std::string& mount, std::string path, const GroupFiles& f) {
  for (;;) {
    const std::string folder = mount + (path == "/" ? "" : path);
    const auto limit = text_of(folder + "/" + f.limit), used = text_of(folder + "/" + f.used),
               stat = text_of(folder + "/memory.stat");
    if (limit && used)
      narrow(m, number(*limit), number(*used), stat ? field(*stat, f.droppable) : 0);
    if (path.empty() || path == "/") return;
    path = path.substr(0, path.rfind('/'));
  }
}

void read_group_limits(Memory& m, const std::string& root) {
  const std::string groups = text_of(root + "/proc/self/cgroup").value_or("");
  if (const auto path = group_path(groups, "0::"))
    narrow_upwards(m, root + "/sys/fs/cgroup", *path,
                   {"memory.max", "memory.current", "inactive_file "});
  if (const auto path = group_path(groups, ":memory:"))
    narrow_upwards(m, root + "/sys/fs/cgroup/memory", *path,
                   {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "});
}

i64 address_space_left(const std::string& root) {
  rlimit r{};
  if (getrlimit(RLIMIT_AS, &r) != 0 || r.rlim_cur == RLIM_INFINITY) return -1;
  const i64 used = number(text_of(root + "/proc/self/statm").value_or("")) * sysconf(_SC_PAGESIZE);
  return std::max<i64>(0, static_cast<i64>(r.rlim_cur) - std::max<i64>(0, used));
}

}  // namespace

i64 Memory::usable() const {
  i64 least = -1;
  for (const i64 x : {available, group_left, address_left})
    if (x >= 0 && (least < 0 || x < least)) least = x;
  return least;
}

std::string Memory::limited_by() const {
  const i64 u = usable();
  if (u == available) return "free memory";
  if (u == group_left) return "the cgroup's memory limit";
  return "ulimit -v";
}

Memory memory(const std::string& root) {
  Memory m;
  const std::string info = text_of(root + "/proc/meminfo").value_or("");
  const i64 total = field(info, "MemTotal:"), available = field(info, "MemAvailable:");
  if (total >= 0) m.installed = total * 1024;
  if (available >= 0) m.available = available * 1024;
  read_group_limits(m, root);
  m.address_left = address_space_left(root);
  return m;
}

HugePages huge_pages(const std::string& root) {
  HugePages h;
  const std::string text =
      text_of(root + "/sys/kernel/mm/transparent_hugepage/enabled").value_or("");
  const std::size_t open = text.find('['), close = text.find(']');
  if (open != std::string::npos && close != std::string::npos && open < close)
    h.transparent = text.substr(open + 1, close - open - 1);
  const i64 pages = field(text_of(root + "/proc/meminfo").value_or(""), "HugePages_Total:");
  h.reserved = std::max<i64>(0, pages);
  return h;
}

Cores cores() {
  Cores c;
  c.online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  c.usable = usable_cores();
  // A mask of a fixed size is refused on machines with more CPUs than it holds.
  for (std::size_t cpus = 1024; cpus <= (std::size_t{1} << 20); cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
    const bool told = sched_getaffinity(0, bytes, set) == 0;
    if (told) c.allowed = CPU_COUNT_S(bytes, set);
    CPU_FREE(set);
    if (told) break;
  }
  return c;
}

SharedMemory shared_memory(const std::string& root) {
  struct statvfs s{};
  const std::string path = root + "/dev/shm";
  if (!is_folder(path) || statvfs(path.c_str(), &s) != 0) return {};
  const auto unit = static_cast<i64>(s.f_frsize);
  return {static_cast<i64>(s.f_blocks) * unit, static_cast<i64>(s.f_bavail) * unit};
}

std::string mpi_launcher(const std::string& root) {
  for (const char* folder : {"/usr/local/bin", "/usr/bin", "/opt/openmpi/bin", "/opt/mpich/bin"})
    for (const char* name : {"mpirun", "mpiexec"}) {
      const std::string path = fmt::format("{}{}/{}", root, folder, name);
      if (access(path.c_str(), X_OK) == 0) return path;
    }
  return {};
}

}  // namespace lathe::plan
