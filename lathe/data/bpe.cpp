#include "lathe/data/bpe.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <queue>
#include <string_view>
#include <tuple>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/data/pair_index.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace lathe::data {

namespace {

// Up to here, looking at every pair for each merge beats keeping a heap.
constexpr std::size_t kShort = 64;
constexpr i32 kNever = INT32_MAX;

i32 rank_or_never(const PairIndex& ranks, i32 left, i32 right) {
  const i32 r = ranks.find(left, right);
  return r == PairIndex::kNone ? kNever : r;
}

}  // namespace

Bpe::Bpe(const std::array<i32, 256>& byte_ids, const std::vector<Merge>& merges)
    : byte_ids_(byte_ids), ranks_(merges.size()) {
  for (const Merge& m : merges) {
    const auto rank = static_cast<i32>(merged_.size());
    ranks_.insert(m.left, m.right, rank);
    merged_.push_back(m.id);
  }
}

void Bpe::append(std::string_view word, std::vector<i32>& out) const {
  if (word.size() == 1)
    out.push_back(byte_ids_[static_cast<u8>(word[0])]);
  else if (word.size() <= kShort)
    append_short(word, out);
  else
    append_long(word, out);
}

void Bpe::append_short(std::string_view word, std::vector<i32>& out) const {
  std::array<i32, kShort> ids, ranks;  // ranks[i]: of the pair i, i + 1
  std::size_t n = word.size();
  for (std::size_t i = 0; i < n; ++i) ids[i] = byte_ids_[static_cast<u8>(word[i])];
  for (std::size_t i = 0; i + 1 < n; ++i) ranks[i] = rank_or_never(ranks_, ids[i], ids[i + 1]);
  while (n > 1) {
    const auto best = static_cast<std::size_t>(
        std::min_element(ranks.begin(), ranks.begin() + static_cast<i64>(n) - 1) - ranks.begin());
    if (ranks[best] == kNever) break;
    ids[best] = merged_[static_cast<std::size_t>(ranks[best])];
    --n;
    for (std::size_t i = best + 1; i < n; ++i) ids[i] = ids[i + 1];
    for (std::size_t i = best; i + 1 < n; ++i) ranks[i] = ranks[i + 1];
    if (best > 0) ranks[best - 1] = rank_or_never(ranks_, ids[best - 1], ids[best]);
    if (best + 1 < n) ranks[best] = rank_or_never(ranks_, ids[best], ids[best + 1]);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + static_cast<i64>(n));
}

void Bpe::append_long(std::string_view word, std::vector<i32>& out) const {
  // A doubly linked list of symbols; a candidate is stale once either of its two ids has changed.
  struct Symbol {
    i32 id, before, behind;  // id -1: merged into the one before
  };
  using Candidate = std::tuple<i32, i32, i32, i32>;  // rank, place, left id, right id
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> heap;
  std::vector<Symbol> list(word.size());
  const auto n = static_cast<i32>(word.size());
  const auto symbol = [&](i32 i) -> Symbol& { return list[static_cast<std::size_t>(i)]; };
  const auto offer = [&](i32 i) {
    if (i < 0 || symbol(i).behind >= n) return;
    const i32 left = symbol(i).id, right = symbol(symbol(i).behind).id;
    const i32 rank = ranks_.find(left, right);
    if (rank != PairIndex::kNone) heap.emplace(rank, i, left, right);
  };
  for (i32 i = 0; i < n; ++i)
    symbol(i) = {byte_ids_[static_cast<u8>(word[static_cast<std::size_t>(i)])], i - 1, i + 1};
  for (i32 i = 0; i < n; ++i) offer(i);
  while (!heap.empty()) {
    const auto [rank, i, left, right] = heap.top();
    heap.pop();
    Symbol& s = symbol(i);
    if (s.id != left || s.behind >= n || symbol(s.behind).id != right) continue;
    Symbol& gone = symbol(s.behind);
    s.id = merged_[static_cast<std::size_t>(rank)];
    s.behind = gone.behind;
    gone.id = -1;
    if (s.behind < n) symbol(s.behind).before = i;
    offer(s.before);
    offer(i);
  }
  for (i32 i = 0; i < n; i = symbol(i).behind) out.push_back(symbol(i).id);
}

void WordCache::append(const Bpe& bpe, std::string_view word, std::vector<i32>& out) {
  if (word.size() > kBytes) return bpe.append(word, out);
  Entry& e = entries_[XXH3_64bits(word.data(), word.size()) & (kEntries - 1)];
  if (e.length != word.size() || std::memcmp(e.word.data(), word.data(), word.size()) != 0) {
    const std::size_t begin = out.size();
    bpe.append(word, out);
    const std::size_t count = out.size() - begin;
    if (count > kIds) return;
    std::memcpy(e.word.data(), word.data(), word.size());
    e.length = static_cast<u8>(word.size());
    e.count = static_cast<u8>(count);
    std::copy_n(out.begin() + static_cast<i64>(begin), count, e.ids.begin());
    return;
  }
  out.insert(out.end(), e.ids.begin(), e.ids.begin() + e.count);
}

}  // namespace lathe::data
