#include "lathe/base/queue.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/view.h"

namespace lathe {
namespace {

TEST(Queue, RunsEveryPieceOnceForAnyNumberOfThreads) {
  for (const int threads : {1, 2, 3, 8}) {
    Queue q(threads);
    for (const i64 pieces : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(pieces));
      for_pieces(q, pieces, [&](i64 p, int) { ++seen[static_cast<std::size_t>(p)]; });
      for (const auto& s : seen) EXPECT_EQ(s.load(), 1);
    }
  }
}

TEST(Queue, NoTwoPiecesAtOnceHaveTheSameWorker) {
  constexpr int kThreads = 4;
  Queue q(kThreads);
  std::vector<std::atomic<int>> busy(kThreads);
  std::atomic<bool> clash{false}, outside{false};
  for_pieces(q, 5000, [&](i64, int w) {
    if (w < 0 || w >= kThreads) {
      outside = true;
      return;
    }
    if (busy[static_cast<std::size_t>(w)]++ != 0) clash = true;
    --busy[static_cast<std::size_t>(w)];
  });
  EXPECT_FALSE(clash.load());
  EXPECT_FALSE(outside.load());
}

TEST(Queue, ManyShortJobsFollowOneAnother) {
  Queue q(3);
  i64 total = 0;
  for (int job = 0; job < 4000; ++job) {
    std::atomic<i64> sum{0};
    for_pieces(q, 5, [&](i64 p, int) { sum += p; });
    total += sum.load();
  }
  EXPECT_EQ(total, 40000);
}

TEST(Queue, SubnormalsAreZeroInsideAPieceAndLiveOutside) {
  Queue q(2);
  volatile float tiny = std::numeric_limits<float>::denorm_min();
  std::atomic<bool> alive{false};
  for_pieces(q, 64, [&](i64, int) {
    if (tiny * 2.0f != 0.0f) alive = true;
  });
  EXPECT_FALSE(alive.load());
  EXPECT_NE(tiny * 2.0f, 0.0f);
}

TEST(Queue, ScratchIsAlignedPrivateAndWholeToItsLastByte) {
  Queue q(2);
  q.shared()[Queue::kSharedScratch - 1] = std::byte{1};
  q.scratch(0)[0] = std::byte{2};
  q.scratch(1)[Queue::kWorkerScratch - 1] = std::byte{3};
  EXPECT_EQ(q.shared()[Queue::kSharedScratch - 1], std::byte{1});
  EXPECT_EQ(q.scratch(0)[0], std::byte{2});
  for (const std::byte* p : {q.shared(), q.scratch(0), q.scratch(1)})
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % 4096, 0u);
  EXPECT_GE(q.scratch(1) - q.scratch(0), Queue::kWorkerScratch);
}

TEST(QueueDeathTest, ADryQueueRunsNothing) {
  Queue q(0);
  EXPECT_EQ(q.threads(), 0);
  EXPECT_DEATH(for_pieces(q, 1, [](i64, int) {}), "dry queue");
}

// Room for the scratch of all, but not for the stacks of all.
TEST(Queue, SaysWhenAThreadCannotBeStarted) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer does not survive a limit of address space";
#endif
  const auto start = [] {
    i64 pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t room = static_cast<rlim_t>(pages * getpagesize() + Queue::kSharedScratch +
                                            400 * Queue::kWorkerScratch + (i64{100} << 20));
    const rlimit limit{room, room};
    setrlimit(RLIMIT_AS, &limit);
    try {
      const Queue q(400);
    } catch (const Error& e) {
      std::fputs(e.report().c_str(), stderr);
      std::_Exit(7);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(start(), testing::ExitedWithCode(7), "of 400 cannot be started");
}

}  // namespace
}  // namespace lathe
