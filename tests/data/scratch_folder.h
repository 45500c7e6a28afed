#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/support/temporary_folder.h"

namespace lathe::data {

/// A temporary folder that files are easily put into.
class ScratchFolder : public testing_support::TemporaryFolder {
 public:
  /// Writes a file, making the folders above it, and returns its path.
  std::string write(const std::string& name, std::string_view bytes) const {
    const std::string path = *this / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
};

}  // namespace lathe::data
