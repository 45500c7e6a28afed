#pragma once
// Byte pair encoding of one word (Sennrich et al., 2016, on bytes as in GPT-2): of all pairs of
// neighbours the one learnt first is merged, the leftmost where it occurs twice, until none is
// left.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/data/pair_index.h"

namespace lathe::data {

/// `left` and `right` side by side become `id`.
struct Merge {
  i32 left, right, id;
  bool operator==(const Merge&) const = default;
};

class Bpe {
 public:
  /// The id of each byte, and the merges in the order they were learnt.
  Bpe(const std::array<i32, 256>& byte_ids, const std::vector<Merge>& merges);

  /// Appends the ids of a word.
  void append(std::string_view word, std::vector<i32>& out) const;

 private:
  void append_short(std::string_view word, std::vector<i32>& out) const;
  void append_long(std::string_view word, std::vector<i32>& out) const;

  std::array<i32, 256> byte_ids_;
  PairIndex ranks_;
  std::vector<i32> merged_;  // by rank
};

/// Remembers the ids of words met before: text is mostly a few thousand words. One per thread.
class WordCache {
 public:
  WordCache() : entries_(kEntries) {}

  /// Appends the ids of `word`, from memory or from `bpe` (always the same one).
  void append(const Bpe& bpe, std::string_view word, std::vector<i32>& out);

 private:
  static constexpr std::size_t kEntries = std::size_t{1} << 14, kBytes = 32, kIds = 7;
  /// One cache line.
  struct alignas(64) Entry {
    std::array<char, kBytes> word;
    u8 length, count;
    std::array<i32, kIds> ids;
  };
  std::vector<Entry> entries_;
};

}  // namespace lathe::data
