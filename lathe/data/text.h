#pragma once
// Text out of files and folders: plain files (one document each), JSON lines (key "text", one
// document a line), either packed by gzip or zstd. Memory does not grow with the files.

#include <memory>
#include <string>
#include <vector>

#include "lathe/base/view.h"

namespace lathe::data {

/// What becomes of bytes that are not UTF-8: U+FFFD stands for them; an Error names file and
/// offset; or the document is left out.
enum class BadUtf8 : u8 { replace, refuse, skip };

struct TextFile {
  std::string path;
  std::string name;  // below the folder that was given; of a file that was given, its own
  i64 size = 0;
  i64 modified = 0;  // nanoseconds since 1970
};

/// The files of each path in turn: a file itself, a folder's in the order of their names. What
/// starts with a dot is left out within folders, and so is the folder `except`. Throws Error when a
/// path does not exist.
std::vector<TextFile> find_files(const std::vector<std::string>& paths, const std::string& except);

/// Part of a document, well-formed UTF-8. A long one comes in several pieces, cut behind a line
/// where splitting by GPT-2's and similar patterns finds the same words with and without the cut.
struct Piece {
  std::string text;
  bool first = false, last = false;
};

/// What was met so far. Offsets count bytes of the unpacked file.
struct TextReport {
  static constexpr std::size_t kNamed = 5;  // how many are named

  i64 documents = 0, bytes = 0;
  i64 binary_files = 0, bad_sequences = 0, skipped_documents = 0;
  std::vector<std::string> binary;      // "path"
  std::vector<std::string> bad_places;  // "path: byte 17"
};

class TextReader {
 public:
  TextReader(std::vector<TextFile> files, BadUtf8 bad);
  ~TextReader();
  TextReader(const TextReader&) = delete;
  TextReader& operator=(const TextReader&) = delete;

  /// The next piece in order; false at the end. Documents without text are left out, and so are
  /// files with a NUL among their first bytes. Throws Error with file and line for JSON lines that
  /// are none.
  bool next(Piece& piece);

  const TextReport& report() const;
  /// Bytes of the files themselves that were read so far.
  i64 consumed() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Where to cut `text` at or behind `from`, so that words stay whole: behind a lone line end
/// between two ASCII characters that are no space; text.size() where there is no such place.
std::size_t safe_cut(std::string_view text, std::size_t from);

}  // namespace lathe::data
