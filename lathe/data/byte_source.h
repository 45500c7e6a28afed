#pragma once
// A file's bytes from front to back, unpacked where its name ends in .gz, .dz or .zst.

#include <memory>
#include <string>

#include "lathe/base/view.h"

namespace lathe::data {

class ByteSource {
 public:
  /// Throws Error when the file is missing or cannot be read.
  explicit ByteSource(const std::string& path);
  ~ByteSource();
  ByteSource(ByteSource&&) noexcept;
  ByteSource& operator=(ByteSource&&) noexcept;

  /// Writes up to `size` unpacked bytes and returns how many; 0 at the end. Throws Error naming
  /// file and offset when the packed data is damaged or cut short.
  std::size_t read(char* out, std::size_t size);

  /// Bytes of the file itself that were read so far.
  i64 consumed() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The name without an ending that says how the file is packed: "a.jsonl.gz" is "a.jsonl".
std::string unpacked_name(const std::string& path);

}  // namespace lathe::data
