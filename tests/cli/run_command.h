#pragma once
// A command line, run in this process.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lathe/cli/command.h"

namespace lathe::cli {

struct Result {
  int code;
  std::string out, err;
};

/// What `c` prints and returns for what stands behind the program's name.
inline Result run_command(Commands& c, const std::vector<std::string>& arguments) {
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Result r;
  r.code = c.run(arguments);
  r.out = testing::internal::GetCapturedStdout();
  r.err = testing::internal::GetCapturedStderr();
  return r;
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace lathe::cli
