#pragma once
// Sequences for training and evaluation out of shards. The whole state of the loader is one
// integer: how many sequences were drawn before.

#include <memory>
#include <string>

#include "lathe/base/view.h"

namespace lathe::data {

/// What `lathe data` recorded beside the tokens.
struct ShardsInfo {
  i64 train_tokens = 0, held_out_tokens = 0, documents = 0, text_bytes = 0;
  i64 vocab = 0;               // the tokenizer's
  std::string tokenizer_hash;  // of the tokenizer.json beside them
  std::string tokenizer_path;
  std::string tokens_hash;  // of all token files
};

/// Reads the folder's index, which `lathe data` writes last. Throws Error when it is missing,
/// damaged, or holds no tokens.
ShardsInfo read_shards_info(const std::string& folder);

class Loader {
 public:
  enum class Part : u8 { train, held_out };

  /// Opens the shards of a folder and checks every id against `vocab` once (kept in a stamp file
  /// beside the shard, so that later opens are quick). Throws Error naming file and token, or
  /// saying how many tokens there are when a context needs more.
  Loader(const std::string& folder, Part part, i64 context, i64 vocab, u64 seed);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Sequences of `context` tokens in one epoch. Sequence i holds tokens [i*context, i*context +
  /// context] of the part: inputs and, moved on by one, targets.
  i64 sequences() const;

  /// Fills `count` rows of `time` (>= context) entries each with the sequences number `first`,
  /// `first`+1, … of the run's order: a permutation of each epoch that is a pure function of
  /// (seed, epoch). held_out is in file order. A document begins with the end-of-text id in front
  /// of it, so that its first token is learnt from that one, and the id behind it is its last
  /// target. A target is kNoTarget (-1) in the padding beyond `context`; padding tokens are id 0,
  /// each its own document. doc_start counts within the row. Returns the number of targets that are
  /// not masked. Throws Error naming the file when a shard has vanished or was cut short since.
  i64 fill(i64 first, i64 count, i64 time, i32* ids, i32* targets, i32* doc_start) const;

  /// The id between documents.
  i32 end_of_text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lathe::data
