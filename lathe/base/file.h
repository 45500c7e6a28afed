#pragma once
// Files: whole, mapped, streamed, replaced atomically. Nothing here leaves a half-written file
// under its final name. Every failure throws Error naming the path, and for a full disk the space
// left.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lathe/base/view.h"

namespace lathe {

/// The whole file. Throws Error when it is missing, a folder, or cannot be read.
std::string read_file(const std::string& path);
/// The same; nothing where there is no such file. One that cannot be looked at is an Error still.
std::optional<std::string> read_if_there(const std::string& path);

/// A file's bytes, mapped for reading as long as this lives.
class MappedFile {
 public:
  /// Throws Error when the file is missing, a folder, or cannot be mapped. An empty file is fine.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::byte* data() const { return data_; }
  i64 size() const { return size_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(data_), static_cast<std::size_t>(size_)};
  }
  const std::string& path() const { return path_; }
  /// Throws Error when the file has since vanished, shrunk, or been replaced by a shorter one:
  /// called before pages are touched, since touching a page past the end kills the process.
  void check_unchanged() const;

 private:
  std::string path_;
  const std::byte* data_ = nullptr;
  i64 size_ = 0;
  int descriptor_ = -1;
};

/// Hashes a stream by xxh3-128.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  void add(const void* data, std::size_t bytes);
  void add(std::string_view bytes) { add(bytes.data(), bytes.size()); }
  /// 32 hexadecimal digits of what was added so far.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// xxh3-128 as 32 hexadecimal digits.
std::string hash_hex(std::string_view bytes);
/// Of a whole file, read piece by piece.
std::string hash_file(const std::string& path);

/// Writes a new file front to back. Until finish() has returned, the file counts as not written;
/// a writer that dies before removes it.
class FileWriter {
 public:
  /// Creates or truncates the file. Throws Error when it cannot.
  explicit FileWriter(const std::string& path);
  /// The same where another name will be the file's in the end: errors name that one.
  FileWriter(std::string path, std::string meant);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  /// Appends. Throws Error on any failure; ENOSPC and EDQUOT name the space left.
  void write(const void* data, std::size_t bytes);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  /// Flushes, fsyncs and closes.
  void finish();

  /// Bytes given to write() so far, and their xxh3-128.
  i64 written() const { return written_; }
  std::string hash() const { return hasher_.hex(); }
  const std::string& path() const { return path_; }

 private:
  void flush();

  std::string path_, meant_, buffer_;
  Hasher hasher_;
  i64 written_ = 0;
  int descriptor_ = -1;
};

/// Replaces `path` by these bytes: a temporary file beside it, write, fsync, rename, fsync of the
/// folder. Whatever happens, `path` holds the old bytes or the new ones.
void write_atomically(const std::string& path, std::string_view bytes);
/// Removes the temporary files that a process which was killed in that left beside `path`.
void remove_leftovers(const std::string& path);

/// Renames a file or folder and fsyncs the folder that holds the new name. A file already called
/// `to` is replaced; so is an empty folder.
void rename_durably(const std::string& from, const std::string& to);

/// Makes what was written to an open file durable. False where that fails.
bool sync_data(int descriptor) noexcept;
/// Makes the names in a folder durable.
void sync_folder(const std::string& path);

/// Makes a folder and those above it. Throws Error when something else has that name.
void make_folders(const std::string& path);

bool exists(const std::string& path);
bool is_folder(const std::string& path);

/// Bytes an ordinary user may still write on the disk that holds `path` (or its nearest parent that
/// exists); -1 when it cannot be told.
i64 free_disk(const std::string& path);

namespace faults {

/// The operations that can be told to fail.
enum class Op : u8 { write, sync, rename };

/// For tests: after `skip` more operations of this kind (through this header) succeed, one fails
/// with this errno, and so do all after it when `forever`.
void fail_after(Op op, i64 skip, int error_number, bool forever = false);
/// The same, counting operations of every kind together.
void fail_any_after(i64 skip, int error_number, bool forever = false);
/// Nothing fails any more; the count starts at 0 again.
void clear();
/// Operations of all kinds since clear().
i64 count();

}  // namespace faults

}  // namespace lathe
