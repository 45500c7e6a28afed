#include "lathe/data/bpe_train.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <queue>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/data/bpe.h"
#include "lathe/data/in_pieces.h"
#include "lathe/data/split.h"
#include "lathe/data/utf8.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace lathe::data {

namespace {

/// Word to count, by open addressing; the bytes of words lie in blocks that never move.
class CountTable {
 public:
  CountTable() : slots_(std::size_t{1} << 12) {}

  /// Adds to the count of a word, whose bytes are copied unless they outlive the table.
  void add(std::string_view word, i64 count, bool copy = true) {
    const u64 hash = XXH3_64bits(word.data(), word.size());
    Slot* s = &slot(hash, word);
    if (!s->word.data()) {
      if (2 * ++size_ > slots_.size()) {
        grow();
        s = &slot(hash, word);
      }
      s->hash = hash;
      s->word = copy ? keep(word) : word;
    }
    s->count += count;
  }

  template <class F>
  void each(const F& f) const {
    for (const Slot& s : slots_)
      if (s.word.data()) f(s.word, s.count);
  }
  std::size_t size() const { return size_; }

 private:
  struct Slot {
    u64 hash = 0;
    std::string_view word;
    i64 count = 0;
  };
  static constexpr std::size_t kBlock = std::size_t{1} << 18;

  Slot& slot(u64 hash, std::string_view word) {
    std::size_t i = hash & (slots_.size() - 1);
    while (slots_[i].word.data() && (slots_[i].hash != hash || slots_[i].word != word))
      i = (i + 1) & (slots_.size() - 1);
    return slots_[i];
  }
  void grow() {
    std::vector<Slot> old(2 * slots_.size());
    std::swap(old, slots_);
    for (const Slot& s : old)
      if (s.word.data()) slot(s.hash, s.word) = s;
  }
  std::string_view keep(std::string_view word) {
    if (blocks_.empty() || used_ + word.size() > kBlock) {
      blocks_.push_back(std::make_unique<char[]>(kBlock));
      used_ = 0;
    }
    char* at = blocks_.back().get() + used_;
    std::memcpy(at, word.data(), word.size());
    used_ += word.size();
    return {at, word.size()};
  }

  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  std::size_t size_ = 0, used_ = 0;
};

/// The words as rows of ids, the pairs in them, and a heap of pairs whose counts may be outdated:
/// counts of pairs on the heap only ever fall, so a pair is right when its count still holds.
class Learner {
 public:
  explicit Learner(std::span<const WordCounter::Word> words) {
    std::size_t total = 0;
    for (const auto& w : words) total += w.text.size();
    ids_.reserve(total);
    for (const auto& w : words) {
      rows_.push_back({ids_.size(), w.text.size(), w.count});
      for (const char c : w.text) ids_.push_back(static_cast<u8>(c));
    }
    for (std::size_t r = 0; r < rows_.size(); ++r)
      for (std::size_t i = 1; i < rows_[r].length; ++i)
        change(ids_[rows_[r].begin + i - 1], ids_[rows_[r].begin + i], rows_[r].count, r);
    push_grown();
  }

  /// Merges the best pair into `id`; false when no pair occurs twice.
  bool merge_best(i32 id, Merge& m) {
    while (!heap_.empty()) {
      const Candidate best = heap_.top();
      heap_.pop();
      Pair& p = pairs_[best.pair];
      if (p.count != best.count) {
        if (p.count >= 2) heap_.push({p.count, p.left, p.right, best.pair});
        continue;
      }
      m = {p.left, p.right, id};
      const std::vector<u32> rows = std::move(p.rows);
      for (const u32 r : rows) merge_in_row(m, r);
      // its own occurrences were not counted down one by one
      pairs_[best.pair] = {m.left, m.right, 0, {}};
      push_grown();
      return true;
    }
    return false;
  }

 private:
  struct Row {
    std::size_t begin, length;
    i64 count;
  };
  struct Pair {
    i32 left, right;
    i64 count;
    std::vector<u32> rows;  // where it occurred once; may occur no more
  };
  struct Candidate {
    i64 count;
    i32 left, right;
    std::size_t pair;
    /// The heap's top is the largest: most frequent, then smallest ids.
    bool operator<(const Candidate& b) const {
      return std::tie(count, b.left, b.right) < std::tie(b.count, left, right);
    }
  };

  void change(i32 left, i32 right, i64 by, std::size_t row) {
    const auto fresh = static_cast<i32>(pairs_.size());
    const i32 n = index_.insert(left, right, fresh);
    if (n == fresh) {
      pairs_.push_back({left, right, 0, {}});
      grown_.push_back(static_cast<std::size_t>(n));
    }
    Pair& p = pairs_[static_cast<std::size_t>(n)];
    p.count += by;
    const auto r = static_cast<u32>(row);
    if (by > 0 && (p.rows.empty() || p.rows.back() != r)) p.rows.push_back(r);
  }

  void merge_in_row(const Merge& m, std::size_t r) {
    Row& row = rows_[r];
    i32* ids = ids_.data() + row.begin;
    std::size_t out = 0;
    for (std::size_t i = 0; i < row.length; ++i) {
      if (i + 1 == row.length || ids[i] != m.left || ids[i + 1] != m.right) {
        ids[out++] = ids[i];
        continue;
      }
      if (out > 0) {
        change(ids[out - 1], m.left, -row.count, r);
        change(ids[out - 1], m.id, row.count, r);
      }
      if (i + 2 < row.length) {
        change(m.right, ids[i + 2], -row.count, r);
        change(m.id, ids[i + 2], row.count, r);
      }
      ids[out++] = m.id;
      ++i;
    }
    row.length = out;
  }

  void push_grown() {
    for (const std::size_t n : grown_)
      if (pairs_[n].count >= 2) heap_.push({pairs_[n].count, pairs_[n].left, pairs_[n].right, n});
    grown_.clear();
  }

  std::vector<i32> ids_;
  std::vector<Row> rows_;
  std::vector<Pair> pairs_;
  PairIndex index_;
  std::vector<std::size_t> grown_;  // pairs met for the first time since the last merge
  std::priority_queue<Candidate> heap_;
};

}  // namespace

struct WordCounter::Share {
  Splitter splitter{kGpt2Pattern};
  Splitter::Cursor cursor{splitter};
  CountTable counts;
};

WordCounter::WordCounter(int threads) {
  for (int i = 0; i < threads; ++i) shares_.push_back(std::make_unique<Share>());
}
WordCounter::~WordCounter() = default;

void WordCounter::add(Queue& q, std::span<const std::string_view> texts) {
  in_pieces(q, static_cast<i64>(texts.size()), [&](i64 piece, int worker) {
    Share& share = *shares_[static_cast<std::size_t>(worker)];
    const auto count_words = [&](std::string_view run) {
      for (std::size_t at = 0; at < run.size();) {
        const std::size_t end = share.cursor.word_end(run, at);
        if (end - at <= kLongest) share.counts.add(run.substr(at, end - at), 1);
        at = end;
      }
    };
    for_runs(texts[static_cast<std::size_t>(piece)], count_words, [](std::string_view) {});
  });
}

std::vector<WordCounter::Word> WordCounter::words() const {
  CountTable sum;
  for (const auto& s : shares_)
    s->counts.each([&](std::string_view word, i64 count) { sum.add(word, count, false); });
  std::vector<Word> words;
  words.reserve(sum.size());
  sum.each([&](std::string_view word, i64 count) { words.push_back({word, count}); });
  std::ranges::sort(words, {}, &Word::text);
  return words;
}

std::vector<Merge> learn_merges(std::span<const WordCounter::Word> words, i64 count) {
  Learner learner(words);
  std::vector<Merge> merges;
  Merge m{};
  while (static_cast<i64>(merges.size()) < count &&
         learner.merge_best(static_cast<i32>(256 + merges.size()), m))
    merges.push_back(m);
  return merges;
}

}  // namespace lathe::data
