#include "lathe/plan/machine.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>
#include <string>

#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "tests/support/temporary_folder.h"

namespace lathe::plan {
namespace {

/// A machine made of files.
class Machine : public testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    const std::string whole = root_.path() + path;
    make_folders(std::filesystem::path(whole).parent_path().string());
    write_atomically(whole, text);
  }
  void put_meminfo() {
    put("/proc/meminfo",
        "MemTotal:       16000 kB\nMemFree:  1 kB\nMemAvailable:    9000 kB\n"
        "HugePages_Total:       3\n");
  }
  Memory look() const {
    Memory m = memory(root_.path());
    m.address_left = -1;  // of the process that tests
    return m;
  }
  testing_support::TemporaryFolder root_;
};

TEST_F(Machine, WithoutProcNothingIsToldAndNothingFails) {
  EXPECT_EQ(look().usable(), -1);
  EXPECT_EQ(huge_pages(root_.path()).transparent, "");
  EXPECT_EQ(shared_memory(root_.path()).size, -1);
  EXPECT_EQ(mpi_launcher(root_.path()), "");
}

TEST_F(Machine, FreeMemoryIsWhatTheKernelCallsAvailable) {
  put_meminfo();
  EXPECT_EQ(look().installed, 16000 * 1024);
  EXPECT_EQ(look().usable(), 9000 * 1024);
  EXPECT_EQ(look().limited_by(), "free memory");
}

TEST_F(Machine, TheTightestGroupAboveTheProcessLimits) {
  put_meminfo();
  put("/proc/self/cgroup", "0::/outer/inner\n");
  const std::string g = "/sys/fs/cgroup";
  put(g + "/outer/inner/memory.max", "max\n");
  put(g + "/outer/inner/memory.current", "1000\n");
  put(g + "/outer/memory.max", "5000000\n");
  put(g + "/outer/memory.current", "3000000\n");
  put(g + "/outer/memory.stat", "anon 7\nactive_file 5\ninactive_file 1000000\n");
  EXPECT_EQ(look().group_limit, 5000000);
  EXPECT_EQ(look().usable(), 3000000);  // file pages that nobody uses can be dropped
  EXPECT_EQ(look().limited_by(), "the cgroup's memory limit");
}

TEST_F(Machine, InAContainerTheMountItselfIsTheGroup) {
  put_meminfo();
  put("/proc/self/cgroup", "0::/docker/0123abcd\n");
  put("/sys/fs/cgroup/memory.max", "4000000\n");
  put("/sys/fs/cgroup/memory.current", "1000000\n");
  EXPECT_EQ(look().usable(), 3000000);
}

TEST_F(Machine, VersionOneOfCgroupsIsUnderstood) {
  put_meminfo();
  put("/proc/self/cgroup", "12:cpu:/\n7:memory:/box\n");
  const std::string g = "/sys/fs/cgroup/memory";
  put(g + "/box/memory.limit_in_bytes", "2000000\n");
  put(g + "/box/memory.usage_in_bytes", "500000\n");
  put(g + "/memory.limit_in_bytes", "9223372036854771712\n");
  put(g + "/memory.usage_in_bytes", "1\n");
  EXPECT_EQ(look().group_limit, 2000000);
  EXPECT_EQ(look().usable(), 1500000);
}

TEST_F(Machine, DamagedFilesTellNothing) {
  put("/proc/meminfo", "MemTotal:\nMemAvailable: lots\n");
  put("/proc/self/cgroup", "0::");
  put("/sys/fs/cgroup/memory.max", "");
  put("/sys/fs/cgroup/memory.current", "-\n");
  EXPECT_EQ(look().usable(), -1);
}

TEST_F(Machine, HugePagesAreReadFromTheBracketedWord) {
  put_meminfo();
  put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  EXPECT_EQ(huge_pages(root_.path()).transparent, "madvise");
  EXPECT_EQ(huge_pages(root_.path()).reserved, 3);
}

TEST_F(Machine, ALauncherIsFoundWhereDistributionsPutIt) {
  put("/usr/bin/mpiexec", "");
  EXPECT_EQ(mpi_launcher(root_.path()), "");  // not executable
  std::filesystem::permissions(root_.path() + "/usr/bin/mpiexec",
                               std::filesystem::perms::owner_exec,
                               std::filesystem::perm_options::add);
  EXPECT_EQ(mpi_launcher(root_.path()), root_.path() + "/usr/bin/mpiexec");
}

TEST(ThisMachine, HasMemoryAndCores) {
  EXPECT_GT(memory().usable(), 0);
  const Cores c = cores();
  EXPECT_GE(c.usable, 1);
  EXPECT_LE(c.usable, c.allowed);
  EXPECT_LE(c.allowed, c.online);
}

TEST(ThisMachine, AnAddressSpaceLimitCounts) {
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &old), 0);
  rlimit low = old;
  low.rlim_cur = rlim_t{1} << 62;
  if (setrlimit(RLIMIT_AS, &low) != 0) GTEST_SKIP() << "this limit cannot be set here";
  const Memory m = memory();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &old), 0);
  EXPECT_GT(m.address_left, 0);
  EXPECT_LT(m.address_left, i64{1} << 62);
}

}  // namespace
}  // namespace lathe::plan
