#pragma once
// Learning merges: the words of a text are counted, and the most frequent pair of neighbours within
// words is merged again and again.

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/data/bpe.h"

namespace lathe::data {

/// Counts the words that GPT-2's pattern finds. The counts depend on the texts alone, neither on
/// their order nor on threads. Bytes that are not UTF-8 are left out, and so are words longer than
/// kLongest bytes, which are no words and would make learning slow.
class WordCounter {
 public:
  static constexpr std::size_t kLongest = 1024;

  /// For use with queues of at most `threads` threads.
  explicit WordCounter(int threads);
  ~WordCounter();
  WordCounter(const WordCounter&) = delete;
  WordCounter& operator=(const WordCounter&) = delete;

  /// Adds the words of each text.
  void add(Queue& q, std::span<const std::string_view> texts);

  struct Word {
    std::string_view text;  // held by the counter
    i64 count;
  };
  /// Every word once, in ascending order of its bytes.
  std::vector<Word> words() const;

 private:
  struct Share;
  std::vector<std::unique_ptr<Share>> shares_;  // by worker
};

/// At most `count` merges of ids 0..255 (the bytes) and 256.. (earlier merges): each time the pair
/// that occurs most often, of those the one with the smaller left id, then the smaller right id;
/// none that occurs less than twice.
std::vector<Merge> learn_merges(std::span<const WordCounter::Word> words, i64 count);

}  // namespace lathe::data
