#include "lathe/base/queue.h"

#include <sys/mman.h>
#include <xmmintrin.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/view.h"

namespace lathe {

namespace {

constexpr unsigned kFlushSubnormals = 0x8040;  // MXCSR: FTZ and DAZ

/// Page-aligned memory that costs nothing until it is touched.
std::byte* map(i64 bytes) {
  void* p = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) throw Error("cannot reserve {} bytes for kernel scratch", bytes);
  madvise(p, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
  return static_cast<std::byte*>(p);
}

}  // namespace

struct Queue::Pool {
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    stop.store(true, std::memory_order_relaxed);
    generation.fetch_add(1, std::memory_order_release);
    generation.notify_all();
    workers.clear();
    if (memory) munmap(memory, static_cast<std::size_t>(bytes));
  }

  std::vector<std::jthread> workers;
  std::byte* memory = nullptr;
  i64 bytes = 0;

  // One job at a time. `generation` changes to start one; `left` counts workers still in it.
  std::atomic<u32> generation{0};
  std::atomic<int> left{0};
  std::atomic<i64> next{0};
  i64 pieces = 0;
  Body body = nullptr;
  const void* context = nullptr;
  std::atomic<bool> stop{false};

  void take_pieces(int worker) noexcept {
    const unsigned saved = _mm_getcsr();
    _mm_setcsr(saved | kFlushSubnormals);
    for (i64 p = next.fetch_add(1, std::memory_order_relaxed); p < pieces;
         p = next.fetch_add(1, std::memory_order_relaxed))
      body(context, p, worker);
    _mm_setcsr(saved);
  }

  void serve(int worker) noexcept {
    u32 seen = 0;
    for (;;) {
      // Kernels follow one another within microseconds: look a little before sleeping.
      for (int spin = 0; spin < 2000 && generation.load(std::memory_order_acquire) == seen; ++spin)
        _mm_pause();
      generation.wait(seen, std::memory_order_acquire);
      seen = generation.load(std::memory_order_acquire);
      if (stop.load(std::memory_order_relaxed)) return;
      take_pieces(worker);
      if (left.fetch_sub(1, std::memory_order_acq_rel) == 1) left.notify_one();
    }
  }
};

Queue::Queue(int threads) : threads_(threads), pool_(nullptr) {
  if (threads == 0) return;
  auto pool = std::make_unique<Pool>();
  pool->bytes = kSharedScratch + threads * kWorkerScratch;
  pool->memory = map(pool->bytes);
  try {
    for (int w = 1; w < threads; ++w)
      pool->workers.emplace_back([p = pool.get(), w] { p->serve(w); });
  } catch (const std::system_error& e) {
    throw Error("thread {} of {} cannot be started: {}", pool->workers.size() + 2, threads,
                e.code().message())
        .hint("ask for fewer (run.threads or --threads), or raise the limit of processes");
  }
  pool_ = pool.release();  // the destructor deletes it
}

Queue::~Queue() { delete pool_; }

void Queue::run(i64 pieces, Body body, const void* context) noexcept {
  CHECK(pool_, "a dry queue was asked to run {} pieces", pieces);
  Pool& p = *pool_;
  p.body = body;
  p.context = context;
  p.pieces = pieces;
  p.next.store(0, std::memory_order_relaxed);
  const bool alone = threads_ == 1 || pieces <= 1;
  if (!alone) {
    p.left.store(threads_ - 1, std::memory_order_relaxed);
    p.generation.fetch_add(1, std::memory_order_release);
    p.generation.notify_all();
  }
  p.take_pieces(0);
  if (alone) return;
  for (int spin = 0; spin < 2000 && p.left.load(std::memory_order_acquire) != 0; ++spin)
    _mm_pause();
  for (int l = p.left.load(std::memory_order_acquire); l != 0;
       l = p.left.load(std::memory_order_acquire))
    p.left.wait(l, std::memory_order_acquire);
}

std::byte* Queue::shared() const noexcept { return pool_->memory; }

std::byte* Queue::scratch(int worker) const noexcept {
  return pool_->memory + kSharedScratch + worker * kWorkerScratch;
}

}  // namespace lathe
