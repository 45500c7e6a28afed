#include "lathe/data/scored.h"

#include <cstring>
#include <queue>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/data/utf8.h"

namespace lathe::data {

namespace {

/// The byte that "<0x1F>" names, else -1.
int named_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  int value = 0;
  for (const char c : token.substr(3, 2)) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (c < 'A' || c > 'F')) return -1;
    value = value * 16 + (digit ? c - '0' : c - 'A' + 10);
  }
  return value;
}

bool is_byte(i32 id) { return id < ScoredVocabulary::kFirstByte + 256; }

/// Characters that are tokens as they are, all else as bytes.
std::vector<i32> characters(const ScoredVocabulary& v, std::string_view text) {
  std::vector<i32> ids;
  const auto as_bytes = [&](std::string_view part) {
    for (const char c : part)
      ids.push_back(ScoredVocabulary::kFirstByte + static_cast<i32>(static_cast<u8>(c)));
  };
  const auto as_characters = [&](std::string_view run) {
    while (!run.empty()) {
      std::size_t n = 1;
      while (n < run.size() && (static_cast<u8>(run[n]) & 0xC0) == 0x80) ++n;
      const auto found = v.ids.find(std::string(run.substr(0, n)));
      if (found != v.ids.end())
        ids.push_back(found->second);
      else
        as_bytes(run.substr(0, n));
      run.remove_prefix(n);
    }
  };
  for_runs(text, as_characters, as_bytes);
  return ids;
}

}  // namespace

ScoredVocabulary read_scored(const std::string& path) {
  const std::string bytes = read_file(path);
  std::size_t at = 4;
  const auto number = [&](auto& value) {
    if (at + sizeof value > bytes.size())
      throw Error("tokenizer is cut short at byte {}", bytes.size()).at(path);
    std::memcpy(&value, bytes.data() + at, sizeof value);
    at += sizeof value;
  };
  ScoredVocabulary v;
  while (at < bytes.size()) {
    float score = 0;
    i32 length = 0;
    number(score);
    number(length);
    if (length < 0 || static_cast<std::size_t>(length) > bytes.size() - at)
      throw Error("tokenizer is cut short or damaged: a token of {} bytes at byte {} of {}", length,
                  at, bytes.size())
          .at(path);
    std::string token = bytes.substr(at, static_cast<std::size_t>(length));
    at += static_cast<std::size_t>(length);
    const auto id = static_cast<i32>(v.tokens.size());
    const int byte = named_byte(token);
    if (id < ScoredVocabulary::kFirstByte) {
      token.clear();
    } else if (id < ScoredVocabulary::kFirstByte + 256) {
      if (byte != id - ScoredVocabulary::kFirstByte)
        throw Error("token {} of a llama2.c tokenizer must be a byte, not \"{}\"", id, token)
            .at(path);
      token.assign(1, static_cast<char>(byte));
    } else {
      v.ids.emplace(token, id);
    }
    v.tokens.push_back(std::move(token));
    v.scores.push_back(score);
  }
  if (v.tokens.size() < ScoredVocabulary::kFirstByte + 256)
    throw Error("tokenizer has {} tokens, fewer than the 259 that llama2.c's always have",
                v.tokens.size())
        .at(path);
  return v;
}

void append_scored(const ScoredVocabulary& v, std::string_view text, std::vector<i32>& out) {
  if (text.empty()) return;
  std::vector<i32> ids = characters(v, " " + std::string(text));
  const auto n = static_cast<i32>(ids.size());
  std::vector<i32> before(ids.size()), behind(ids.size());
  const auto at = [](auto& list, i32 i) -> auto& { return list[static_cast<std::size_t>(i)]; };
  // highest score first, then leftmost; stale once either id has changed (-1: merged away)
  using Candidate = std::tuple<float, i32, i32, i32, i32>;  // score, -place, left, right, union
  std::priority_queue<Candidate> heap;
  const auto offer = [&](i32 i) {
    if (i < 0 || at(behind, i) >= n) return;
    const i32 left = at(ids, i), right = at(ids, at(behind, i));
    if (is_byte(left) || is_byte(right)) return;
    const auto found = v.ids.find(at(v.tokens, left) + at(v.tokens, right));
    if (found != v.ids.end())
      heap.emplace(at(v.scores, found->second), -i, left, right, found->second);
  };
  for (i32 i = 0; i < n; ++i) {
    at(before, i) = i - 1;
    at(behind, i) = i + 1;
  }
  for (i32 i = 0; i < n; ++i) offer(i);
  while (!heap.empty()) {
    const auto [score, place, left, right, merged] = heap.top();
    heap.pop();
    const i32 i = -place, next = at(behind, i);
    if (at(ids, i) != left || next >= n || at(ids, next) != right) continue;
    at(ids, i) = merged;
    at(ids, next) = -1;
    at(behind, i) = at(behind, next);
    if (at(behind, i) < n) at(before, at(behind, i)) = i;
    offer(at(before, i));
    offer(i);
  }
  for (i32 i = 0; i < n; i = at(behind, i)) out.push_back(at(ids, i));
}

std::string hash_of(const ScoredVocabulary& v) {
  Hasher h;
  h.add("scored BPE");
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    const u64 size = v.tokens[i].size();
    h.add(&size, sizeof size);
    h.add(v.tokens[i]);
    h.add(&v.scores[i], sizeof v.scores[i]);
  }
  return h.hex();
}

}  // namespace lathe::data
