#pragma once
// Byte-level BPE: text to ids and back. Splitting by the GPT-2 pattern, then merges by rank.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/base/view.h"

namespace lathe::data {

class WordCounter;

class Tokenizer {
 public:
  /// Learns merges until the vocabulary (256 bytes + merges + <|endoftext|>) has `vocab` entries,
  /// or no pair occurs twice. Deterministic: the most frequent pair, ties to the smaller (left,
  /// right) ids. Texts are documents. Throws Error when vocab < 257.
  static Tokenizer train(const std::vector<std::string_view>& texts, i64 vocab, int threads);
  /// The same from words that were counted before, for text that does not fit in memory.
  static Tokenizer train(const WordCounter& words, i64 vocab);
  /// Reads a Hugging Face tokenizer.json (byte-level BPE) or a llama2.c tok*.bin (by its name
  /// ending in .bin; that one is not byte-level: encode is SentencePiece-like by score).
  static Tokenizer load(const std::string& path);
  /// Writes a Hugging Face tokenizer.json, replacing atomically. Throws Error for a tokenizer of
  /// llama2.c's kind, which such a file cannot hold.
  void save(const std::string& path) const;

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Ids of any bytes; <|endoftext|> is not recognised in text. Thread-safe. Bytes that are not
  /// UTF-8 are words of their own. Throws Error when the splitting pattern gives up on the text.
  std::vector<i32> encode(std::string_view text) const;
  /// The text that was encoded (in NFC where the tokenizer.json asks for that). An id that is out
  /// of range stands for no bytes.
  std::string decode(const std::vector<i32>& ids) const;
  /// The bytes of one id; none when it is out of range.
  std::string_view bytes(i32 id) const;

  i64 size() const;
  /// <|endoftext|>: stands between documents; also the start of an unprompted sample.
  i32 end_of_text() const;
  /// xxh3-128 of the vocabulary and merges, hexadecimal: recorded in shards and checkpoints.
  std::string hash() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lathe::data
