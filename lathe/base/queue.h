#pragma once
// A pool of threads that runs the pieces of one kernel at a time. A kernel cuts its work by the
// size of the work, never by the number of threads, so that no result depends on that number.

#include "lathe/base/view.h"

namespace lathe {

/// What a dry run counts. A multiply-add is two operations. Whole numbers, exact below 2^53; a step
/// of the largest models has more than an i64 holds.
struct Work {
  double product_flops = 0;    // linear layers and the head
  double attention_flops = 0;  // the two products of attention, masked halves left out
  double other_flops = 0;      // everything else, roughly
  double bytes = 0;            // read and written by kernels, each operand once
};

class Queue {
 public:
  /// Private to each worker, for packing and small tiles; contents do not outlive a piece.
  static constexpr i64 kWorkerScratch = i64{8} << 20;
  /// One for all workers; contents do not outlive a kernel.
  static constexpr i64 kSharedScratch = i64{32} << 20;

  /// `threads` workers, the caller being one of them. 0: a dry queue, which holds no memory and
  /// must not run anything.
  explicit Queue(int threads);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  int threads() const { return threads_; }

  using Body = void (*)(const void* context, i64 piece, int worker);
  /// Calls body(context, p, w) for each p in [0, pieces), in any order, on any worker w, and
  /// returns when all are done. While a piece runs, floating point treats subnormals as zero (FTZ
  /// and DAZ), as matrix hardware does. Not re-entrant.
  void run(i64 pieces, Body body, const void* context) noexcept;

  /// kWorkerScratch bytes, aligned to a page.
  std::byte* scratch(int worker) const noexcept;
  /// kSharedScratch bytes, aligned to a page.
  std::byte* shared() const noexcept;

  /// Counted by the dry kernels only.
  Work work;

 private:
  struct Pool;
  int threads_;
  Pool* pool_;
};

/// Runs f(piece, worker) for each piece. F's type must have no external linkage in files of one
/// instruction set (a lambda in an unnamed namespace), so that nothing here can be merged.
template <class F>
LATHE_INLINE void for_pieces(Queue& q, i64 pieces, const F& f) noexcept {
  q.run(
      pieces,
      [](const void* c, i64 piece, int worker) { (*static_cast<const F*>(c))(piece, worker); }, &f);
}

}  // namespace lathe
