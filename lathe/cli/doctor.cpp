#include <fmt/format.h>
#include <sys/utsname.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/cpu.h"
#include "lathe/base/units.h"
#include "lathe/base/version.h"
#include "lathe/base/view.h"
#include "lathe/cli/command.h"
#include "lathe/kernels/kernels.h"
#include "lathe/plan/machine.h"

namespace lathe::cli {

namespace {

struct DoctorOptions {
  bool json = false;
};

/// One thing looked at. `missing` and `type` are empty where all is well.
struct Finding {
  std::string what;     // "memory"
  std::string found;    // "15.6 GB of 16.0 GB free"
  std::string missing;  // what it costs to be without
  std::string type;     // what to type to mend it
};

Finding processor() {
  const Cpu& c = cpu();
  return {"cpu",
          fmt::format("{}; caches {} KiB, {} KiB, {} KiB", c.model.empty() ? c.vendor : c.model,
                      c.l1_data / 1024, c.l2 / 1024, c.l3 / 1024),
          "", ""};
}

Finding core_counts() {
  const plan::Cores c = plan::cores();
  Finding f{"cores", fmt::format("{} usable, of {} in this machine", c.usable, c.online), "", ""};
  if (c.allowed < c.online) {
    f.missing = fmt::format("this process may run on {} of them only", c.allowed);
    f.type = fmt::format("taskset -c 0-{} lathe …", c.online - 1);
  } else if (c.usable < c.allowed) {
    f.missing = "a cgroup's CPU quota pays for no more";
    f.type = "cat /sys/fs/cgroup/cpu.max   (a container: docker run --cpus N)";
  }
  return f;
}

std::vector<Finding> kernel_tables() {
  std::vector<Finding> all;
  all.push_back({"kernels", kernels::describe(kernels::select("auto")), "", ""});
  for (const kernels::Candidate& k : kernels::candidates()) {
    Finding f{fmt::format("  {}", k.table->name), k.why_not.empty() ? "usable" : "not usable", "",
              ""};
    if (!k.why_not.empty()) f.missing = k.why_not;
    all.push_back(f);
  }
  return all;
}

Finding amx() {
  const Cpu& c = cpu();
  Finding f{"amx", "", "", ""};
  if (!c.amx_tile || !c.amx_bf16) {
    f.found = "this CPU has no AMX tiles: BF16 products use the next best table";
    return f;
  }
  const std::string& why = why_not(Isa::amx);
  f.found =
      why.empty() ? "tiles, and the kernel's permission to use them" : "tiles, but no permission";
  f.missing = why;
  if (!why.empty()) f.type = "uname -r   (Linux 5.16 or newer hands out the permission)";
  return f;
}

Finding memory() {
  const plan::Memory m = plan::memory();
  if (m.usable() < 0)
    return {"memory", "not told", "no /proc/meminfo here", "mount -t proc proc /proc"};
  std::string s = fmt::format("{} can be had ({})", bytes_text(m.usable()), m.limited_by());
  if (m.installed >= 0) s += fmt::format(", of {} installed", bytes_text(m.installed));
  if (m.group_limit >= 0) s += fmt::format("; cgroup limit {}", bytes_text(m.group_limit));
  return {"memory", s, "", ""};
}

Finding huge_pages() {
  const plan::HugePages h = plan::huge_pages();
  Finding f{"huge pages",
            h.transparent.empty() ? "not told" : fmt::format("transparent: {}", h.transparent), "",
            ""};
  if (h.transparent == "never") {
    f.missing = "products spend more time on page tables";
    f.type = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled";
  }
  return f;
}

Finding shared_memory() {
  // Ranks of one machine pass gradients through it; one process needs none.
  constexpr i64 kEnough = 1'000'000'000;
  const plan::SharedMemory s = plan::shared_memory();
  if (s.size < 0)
    return {"/dev/shm", "none", "ranks on one machine would talk through sockets",
            "sudo mount -t tmpfs -o size=50% tmpfs /dev/shm"};
  Finding f{"/dev/shm", fmt::format("{} free of {}", bytes_text(s.free), bytes_text(s.size)), "",
            ""};
  if (s.free < kEnough) {
    f.missing = "small for several ranks; one process needs none";
    f.type = "sudo mount -o remount,size=50% /dev/shm   (a container: docker run --shm-size=4g)";
  }
  return f;
}

Finding mpi() {
  const std::string path = plan::mpi_launcher();
  if (!path.empty()) return {"mpi", path, "", ""};
  return {"mpi", "no mpirun", "one machine needs none",
          "sudo apt-get install -y openmpi-bin libopenmpi-dev"};
}

std::vector<Finding> look() {
  utsname u{};
  uname(&u);
  std::vector<Finding> all{
      {"lathe", fmt::format("{} on {} {}", kVersion, u.sysname, u.release), "", ""}};
  all.push_back(processor());
  all.push_back(core_counts());
  for (Finding& f : kernel_tables()) all.push_back(std::move(f));
  for (const Finding& f : {amx(), memory(), huge_pages(), shared_memory(), mpi()}) all.push_back(f);
  return all;
}

void declare(CLI::App& a, DoctorOptions& o) {
  a.add_flag("--json", o.json, "print JSON, for programs");
}

int run(const DoctorOptions& o) {
  const std::vector<Finding> all = look();
  if (o.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Finding& f : all)
      list.push_back({{"what", f.what.substr(f.what.find_first_not_of(' '))},
                      {"found", f.found},
                      {"missing", f.missing},
                      {"type", f.type}});
    fmt::print("{}\n", list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return 0;
  }
  for (const Finding& f : all) {
    fmt::print("{:<14} {}\n", f.what, f.found);
    if (!f.missing.empty()) fmt::print("{:<14} - {}\n", "", f.missing);
    if (!f.type.empty()) fmt::print("{:<14} - type: {}\n", "", f.type);
  }
  return 0;
}

}  // namespace

void add_doctor(Commands& c) {
  c.add<DoctorOptions>("doctor",
                       "look at this machine: what is there, what is missing, what to type",
                       "lathe doctor\nlathe doctor --json\n", declare, run);
}

}  // namespace lathe::cli
