#pragma once
// The order in which sequences are drawn: epoch after epoch, each a permutation that is a pure
// function of (seed, epoch), so that any place in it is found without walking there.

#include "lathe/base/rng.h"
#include "lathe/base/view.h"

namespace lathe::data {

/// A Feistel network over the smallest even number of bits that holds `count` numbers, walked along
/// its cycle until it lands below `count` (Black and Rogaway, CT-RSA 2002).
class EpochOrder {
 public:
  /// count >= 1.
  EpochOrder(i64 count, u64 seed) : count_(count), seed_(seed) {
    while (i64{1} << (2 * half_bits_) < count) ++half_bits_;
  }

  /// The sequence drawn at `position` >= 0, counted over all epochs.
  i64 at(i64 position) const {
    const Rng rng{seed_, Draw::shuffle, static_cast<u64>(position / count_)};
    i64 x = position % count_;
    do x = shuffle(rng, x);
    while (x >= count_);
    return x;
  }

 private:
  i64 shuffle(const Rng& rng, i64 x) const {
    const u64 mask = (u64{1} << half_bits_) - 1;
    u64 left = static_cast<u64>(x) >> half_bits_, right = static_cast<u64>(x) & mask;
    for (u64 round = 0; round < 6; ++round) {
      const u64 next = left ^ (rng.word(round << 32 | right) & mask);
      left = right;
      right = next;
    }
    return static_cast<i64>(left << half_bits_ | right);
  }

  i64 count_;
  u64 seed_;
  int half_bits_ = 1;
};

}  // namespace lathe::data
