#pragma once
// The safetensors format (github.com/huggingface/safetensors, README "Format"): a u64 length, that
// many bytes of JSON that name every tensor's type, shape and place, and the tensors' bytes.

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/base/file.h"
#include "lathe/base/view.h"

namespace lathe::train {

using NamedTensors = std::vector<std::pair<std::string, ConstTensor>>;

/// A tensor's shape in a file: a single row is a vector.
std::vector<i64> file_shape(const ConstTensor& t);

/// Writes a whole file's bytes through `w`, which the caller finishes. Names are distinct, tensors
/// contiguous.
void write_safetensors(FileWriter& w, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata = {});
/// Bytes that write_safetensors writes, but for its header: enough to ask for disk space.
i64 tensor_bytes(const NamedTensors& tensors);

/// Tensors of a file that nobody asked for.
enum class Leftover : u8 { refused, allowed };

/// A file opened for reading. Nothing in it is trusted: lengths, offsets, shapes and names are
/// checked before any is used.
class SafeTensors {
 public:
  struct Entry {
    DType type;
    std::vector<i64> shape;
    i64 begin, end;  // bytes, counted from the file's start
  };

  /// Throws Error naming the file when it is not a whole, well-formed file of types we know.
  explicit SafeTensors(const std::string& path);

  const std::map<std::string, Entry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const MappedFile& file() const { return file_; }

  /// Copies into the tensors, which must be all that the file holds: throws Error naming the first
  /// that is missing, left over (unless that is allowed), or of another type or shape. `what` says
  /// whose they are.
  void read_into(const std::vector<std::pair<std::string, Tensor>>& tensors, std::string_view what,
                 Leftover leftover = Leftover::refused) const;

 private:
  MappedFile file_;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace lathe::train
