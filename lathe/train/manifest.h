#pragma once
// The file that makes a checkpoint whole: names, sizes and hashes of all others, and a hash of its
// own text. It is written last.

#include <map>
#include <string>

#include "lathe/base/view.h"

namespace lathe::train {

struct Manifest {
  struct File {
    i64 bytes = 0;
    std::string hash;  // xxh3-128, hexadecimal
  };
  i64 step = 0;
  std::map<std::string, File> files;  // by name within the folder
};

inline constexpr const char* kManifestName = "manifest.json";

/// The manifest's whole text.
std::string to_text(const Manifest& m);

/// Reads a folder's manifest and compares every file it names with it. Throws Error naming the
/// first file that is missing, of another size, or of another hash; the manifest among them.
Manifest read_verified(const std::string& folder);

}  // namespace lathe::train
