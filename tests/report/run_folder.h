#pragma once
// A run folder of a test's own making, removed when the test ends.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace lathe::report {

class RunFolder {
 public:
  RunFolder()
      : path_(std::filesystem::path(testing::TempDir()) /
              (std::string("report-") +
               testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~RunFolder() { std::filesystem::remove_all(path_); }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
  }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace lathe::report
