#pragma once
// A hash table from pairs of ids to small numbers: open addressing, nothing is ever removed.

#include <utility>
#include <vector>

#include "lathe/base/view.h"

namespace lathe::data {

class PairIndex {
 public:
  static constexpr i32 kNone = -1;

  explicit PairIndex(std::size_t expected = 0) {
    std::size_t n = 64;
    while (n < 2 * expected) n *= 2;
    slots_.resize(n);
  }

  /// The number kept for a pair, or kNone.
  LATHE_INLINE i32 find(i32 left, i32 right) const {
    const u64 key = key_of(left, right);
    for (std::size_t i = start(key);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].key == key) return slots_[i].value;
      if (slots_[i].value == kNone) return kNone;
    }
  }

  /// Keeps `value` >= 0 for a pair that has none yet, and returns it; else returns the one kept.
  i32 insert(i32 left, i32 right, i32 value) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    Slot& s = slot(key_of(left, right));
    if (s.value == kNone) {
      s = {key_of(left, right), value};
      ++size_;
    }
    return s.value;
  }

 private:
  struct Slot {
    u64 key = ~u64{0};
    i32 value = kNone;
  };

  static u64 key_of(i32 left, i32 right) {
    return u64{static_cast<u32>(left)} << 32 | static_cast<u32>(right);
  }
  std::size_t start(u64 key) const {
    key *= 0x9E3779B97F4A7C15;
    return (key ^ key >> 32) & (slots_.size() - 1);
  }
  Slot& slot(u64 key) {
    std::size_t i = start(key);
    while (slots_[i].value != kNone && slots_[i].key != key) i = (i + 1) & (slots_.size() - 1);
    return slots_[i];
  }
  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    std::swap(old, slots_);
    for (const Slot& s : old)
      if (s.value != kNone) slot(s.key) = s;
  }

  std::vector<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace lathe::data
