#pragma once
// What this machine gives this process, read from /proc and /sys. Every function takes the folder
// that stands for "/", so that tests can show it other machines.

#include <string>

#include "lathe/base/view.h"

namespace lathe::plan {

/// Bytes. -1: no such limit, or not told.
struct Memory {
  i64 installed = -1;
  i64 available = -1;     // what the kernel could hand out without swapping (MemAvailable)
  i64 group_limit = -1;   // the tightest cgroup limit above this process
  i64 group_left = -1;    // of that one: limit less what is used and cannot be dropped
  i64 address_left = -1;  // of the address space limit (ulimit -v)

  /// The smallest of what is available and left; -1 when nothing is told.
  i64 usable() const;
  /// Which of them that is: "free memory", "the cgroup's memory limit", "ulimit -v".
  std::string limited_by() const;
};
Memory memory(const std::string& root = "");

struct HugePages {
  std::string transparent;  // "always", "madvise", "never"; empty: not told
  i64 reserved = 0;         // pages of the static pool
};
HugePages huge_pages(const std::string& root = "");

/// Cores: those of the machine, those this process may run on, those its cgroup's quota pays for.
struct Cores {
  int online = 0, allowed = 0, usable = 0;
};
Cores cores();

/// The file system for shared memory between processes; -1: there is none.
struct SharedMemory {
  i64 size = -1, free = -1;
};
SharedMemory shared_memory(const std::string& root = "");

/// The first of mpirun, mpiexec in the usual folders; empty: none.
std::string mpi_launcher(const std::string& root = "");

}  // namespace lathe::plan
