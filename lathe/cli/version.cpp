#include "lathe/base/version.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "lathe/cli/command.h"

namespace lathe::cli {

namespace {

struct VersionOptions {
  bool json = false;
};

void declare(CLI::App& a, VersionOptions& o) {
  a.add_flag("--json", o.json, "print JSON, for programs");
}

int run(const VersionOptions& o) {
  if (o.json) {
    const nlohmann::ordered_json j{{"version", kVersion}, {"compiler", "g++ " __VERSION__}};
    fmt::print("{}\n", j.dump(2));
  } else {
    fmt::print("lathe {}\n", kVersion);
  }
  return 0;
}

}  // namespace

void add_version(Commands& c) {
  c.add<VersionOptions>("version", "print the version", "lathe version --json\n", declare, run);
}

}  // namespace lathe::cli
