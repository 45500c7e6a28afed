#include "lathe/base/cpu.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>
#include <string>
#include <thread>

namespace lathe {

namespace {

/// The words of a line of /proc/cpuinfo: what the kernel says of the first processor.
std::string cpuinfo(const std::string& key) {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) return line.substr(line.find(':') + 1) + " ";
  return {};
}

bool kernel_lists(const std::string& flag) {
  return cpuinfo("flags").find(" " + flag + " ") != std::string::npos;
}

/// The kernel may hide what the processor has, to work round a fault in it, but not the reverse.
void expect_listed_is_there(const std::string& flag, bool there) {
  EXPECT_TRUE(there || !kernel_lists(flag)) << flag;
}

TEST(Cpu, FeaturesThatTheKernelListsAreThere) {
  if (cpuinfo("flags").empty()) GTEST_SKIP() << "/proc/cpuinfo lists no flags";
  expect_listed_is_there("avx2", cpu().avx2);
  expect_listed_is_there("fma", cpu().fma);
  expect_listed_is_there("avx512f", cpu().avx512f);
  expect_listed_is_there("avx512bw", cpu().avx512bw);
  expect_listed_is_there("avx512dq", cpu().avx512dq);
  expect_listed_is_there("avx512vl", cpu().avx512vl);
  expect_listed_is_there("avx512_bf16", cpu().avx512_bf16);
  expect_listed_is_there("amx_tile", cpu().amx_tile);
  expect_listed_is_there("amx_bf16", cpu().amx_bf16);
}

TEST(Cpu, NamesAreThoseThatTheKernelReports) {
  if (cpuinfo("vendor_id").empty()) GTEST_SKIP() << "/proc/cpuinfo names no vendor";
  EXPECT_EQ(" " + cpu().vendor + " ", cpuinfo("vendor_id"));
  EXPECT_FALSE(cpu().model.empty());
}

TEST(Cpu, EachInstructionSetNeedsTheOneBefore) {
  EXPECT_TRUE(why_not(Isa::baseline).empty());
  const Isa order[] = {Isa::avx2, Isa::avx512, Isa::avx512bf16, Isa::amx};
  for (int i = 1; i < 4; ++i)
    if (why_not(order[i]).empty()) {
      EXPECT_TRUE(why_not(order[i - 1]).empty());
    }
}

TEST(Cpu, AnInstructionSetThatIsMissingHasItsReason) {
  if (!cpu().amx_tile) {
    EXPECT_EQ(why_not(Isa::amx), "no AMX-TILE on this CPU");
  }
  if (!cpu().avx2) {
    EXPECT_EQ(why_not(Isa::avx2), "no AVX2 on this CPU");
  }
  if (!cpu().avx512_bf16 && why_not(Isa::avx512).empty()) {
    EXPECT_EQ(why_not(Isa::avx512bf16), "no AVX512-BF16 on this CPU");
  }
}

TEST(Cpu, CoresFollowTheAffinityMask) {
  EXPECT_GE(usable_cores(), 1);
  // In a thread of its own, whose mask may be narrowed.
  std::thread([] {
    cpu_set_t mask;
    ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
    int first = 0;
    while (!CPU_ISSET(first, &mask)) ++first;
    CPU_ZERO(&mask);
    CPU_SET(first, &mask);
    ASSERT_EQ(sched_setaffinity(0, sizeof mask, &mask), 0);
    EXPECT_EQ(usable_cores(), 1);
  }).join();
}

TEST(Cpu, QuotasAreRoundedUpToWholeCores) {
  EXPECT_EQ(cores_of_quota("200000 100000"), 2);
  EXPECT_EQ(cores_of_quota("150000 100000"), 2);
  EXPECT_EQ(cores_of_quota("5000 100000"), 1);
  EXPECT_EQ(cores_of_quota("max 100000"), 0);
}

TEST(Cpu, QuotasThatMakeNoSenseLimitNothing) {
  for (const char* text : {"", "max", "100000", "-1 100000", "100000 0", "1e5 100000", "a b",
                           "99999999999999999999 1"})
    EXPECT_EQ(cores_of_quota(text), 0) << text;
}

}  // namespace

}  // namespace lathe
