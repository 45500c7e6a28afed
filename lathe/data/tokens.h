#pragma once
// Token files: what `lathe data` writes and the loader reads. All numbers are little-endian.
//
//   offset  bytes
//        0      8  "LTHTOKEN"
//        8      4  version: 1
//       12      4  bytes of an id: 2 or 4
//       16      8  N: number of ids
//       24      8  D: number of documents that start in this file
//       32      4  vocabulary: every id is below
//       36      4  the end-of-text id
//       40     32  the tokenizer's hash, 32 hexadecimal digits
//       72     32  xxh3-128 of everything from byte 128 on, 32 hexadecimal digits
//      104     24  zeros
//      128   N*..  ids, then zeros up to a multiple of 8
//            D* 8  for each document that starts here, the place of its first id, ascending
//
// A part (training, held out) is one long row of ids cut into files: an end-of-text id stands in
// front of every document and behind the last, and a document's first id is the one in front of it.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lathe/base/view.h"

namespace lathe::data {

/// What must be the same in all files of a folder.
struct TokensKind {
  i64 vocab = 0;
  i32 end_of_text = 0;
  std::string tokenizer_hash;

  i64 id_bytes() const { return vocab <= 65536 ? 2 : 4; }
};

/// One file, as a folder's index lists it.
struct TokensEntry {
  std::string file;  // name within the folder
  i64 tokens = 0, documents = 0, bytes = 0;
  std::string hash;
};

/// Writes one part. Each file appears whole and under its name, or not at all.
class TokensWriter {
 public:
  static constexpr i64 kFileTokens = i64{1} << 25;

  /// Files are called <part>-00000.tokens, ….
  TokensWriter(std::string folder, std::string part, TokensKind kind,
               i64 file_tokens = kFileTokens);

  /// The next ids begin a document.
  void begin_document();
  void add(std::span<const i32> ids);
  /// Ends the part. Returns its files in order; none when it has no document.
  std::vector<TokensEntry> finish();
  i64 tokens() const { return tokens_; }

 private:
  void add_one(i32 id);
  void flush();

  std::string folder_, part_;
  TokensKind kind_;
  i64 file_tokens_, tokens_ = 0, in_file_ = 0;
  std::string ids_;             // of the current file
  std::vector<u64> documents_;  // likewise
  std::vector<TokensEntry> files_;
};

/// An open token file. Reads go through the file, not through mapped memory: a file that is cut
/// short while it is in use is then an error and no fault.
class TokensFile {
 public:
  /// Reads and checks the header. Throws Error naming the file.
  explicit TokensFile(std::string path);
  ~TokensFile();
  TokensFile(TokensFile&&) noexcept;
  TokensFile& operator=(TokensFile&&) = delete;

  const TokensKind& kind() const { return kind_; }
  i64 tokens() const { return tokens_; }
  i64 documents() const { return documents_; }
  const std::string& path() const { return path_; }

  /// Checks the hash, every id and every document once, and remembers that in <path>.checked, which
  /// holds as long as size and time of the file stay; then that every id is below `vocab`. Throws
  /// Error naming the file and the token.
  void check(i64 vocab) const;

  /// Writes ids [begin, begin + count) to `out`. Throws Error when the file has vanished, was cut
  /// short or was written to since it was opened.
  void read(i64 begin, i64 count, i32* out) const;
  /// Where documents start, ascending.
  std::vector<u64> document_starts() const;

 private:
  void read_bytes(i64 offset, i64 size, void* out) const;
  void require_unchanged() const;
  i64 largest_id() const;
  [[noreturn]] void refuse_document(std::size_t number) const;
  [[noreturn]] void refuse_id(i64 vocab) const;

  std::string path_, hash_;
  TokensKind kind_;
  i64 id_bytes_ = 2, tokens_ = 0, documents_ = 0;
  i64 size_ = 0, modified_ = 0;
  int descriptor_ = -1;
};

}  // namespace lathe::data
