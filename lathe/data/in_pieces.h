#pragma once
// Queue::run for work that may throw.

#include <exception>
#include <vector>

#include "lathe/base/queue.h"

namespace lathe::data {

/// Runs f(piece, worker) for each piece; then, if any threw, throws what the first of them (by
/// number, so always the same) threw.
template <class F>
void in_pieces(Queue& q, i64 pieces, const F& f) {
  std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(pieces));
  for_pieces(q, pieces, [&](i64 piece, int worker) {
    try {
      f(piece, worker);
    } catch (...) {
      thrown[static_cast<std::size_t>(piece)] = std::current_exception();
    }
  });
  for (const std::exception_ptr& e : thrown)
    if (e) std::rethrow_exception(e);
}

}  // namespace lathe::data
