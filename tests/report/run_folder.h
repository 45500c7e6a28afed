#pragma once
// A run folder of a test's own making, removed when the test ends.

#include <fstream>
#include <ios>
#include <string>

#include "tests/support/temporary_folder.h"

namespace lathe::report {

class RunFolder {
 public:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  const std::string& path() const { return folder_.path(); }

 private:
  testing_support::TemporaryFolder folder_;
};

}  // namespace lathe::report
