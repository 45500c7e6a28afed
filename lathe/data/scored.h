#pragma once
// The tokenizer of llama2.c: SentencePiece's BPE with a score per token, bytes as a last resort.

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lathe/base/view.h"

namespace lathe::data {

struct ScoredVocabulary {
  static constexpr i32 kBegin = 1, kEnd = 2, kFirstByte = 3;

  std::vector<std::string> tokens;  // the bytes each id stands for; empty for 0 to 2
  std::vector<float> scores;
  std::unordered_map<std::string, i32> ids;  // of every token that is text
};

/// Reads a tok*.bin: i32 longest length, then per token f32 score, i32 length, the bytes. Throws
/// Error naming file and offset when it is cut short or makes no sense.
ScoredVocabulary read_scored(const std::string& path);

/// Appends the ids of a text, to which SentencePiece's dummy space is put in front: characters,
/// then again and again the pair of neighbours whose union has the highest score, the leftmost of
/// equals. Characters that are no token, and bytes that are no character, become byte tokens.
void append_scored(const ScoredVocabulary& v, std::string_view text, std::vector<i32>& out);

std::string hash_of(const ScoredVocabulary& v);

}  // namespace lathe::data
