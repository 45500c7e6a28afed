#pragma once
// The folder of a run: whose it is, and that only one process trains in it.

#include <optional>
#include <string>

#include "lathe/base/error.h"
#include "lathe/base/lock.h"
#include "lathe/base/queue.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"

namespace lathe::train {

/// A folder that belongs to a run with other results.
class OtherRun : public Error {
 public:
  explicit OtherRun(const Error& e) : Error(e) {}
};

/// A run's folder, locked for as long as this lives.
class RunFolder {
 public:
  /// Makes the folder or finds in it the same run. Throws OtherRun, naming the keys, when it
  /// belongs to a run with other results; Error when another process trains in it, when it holds
  /// something else (the folder `compare` excepted, where runs of other recipes lie), or a
  /// config.toml or recipe.toml that no run has written.
  explicit RunFolder(const RunConfig& c);
  /// Writes config.toml and recipe.toml, once nothing stands in the run's way, and removes what a
  /// crash left beside these files.
  void write_settings(const RunConfig& c) const;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
  std::optional<FolderLock> lock_;
};

/// What says that the run with that config.toml, its recipe.toml beside it, is another than `c`,
/// and by which keys.
OtherRun other_run(const std::string& config, const RunConfig& c);

/// What is known when training starts; run.json holds it for the report.
struct RunFacts {
  const RunConfig& config;
  const Footprint& footprint;
  std::string kernels;  // kernels::describe
  int threads = 0;
  double peak = 0;  // operations per second
  i64 first_step = 1;
};

inline constexpr const char* kRunJson = "run.json";

void write_run_json(const std::string& path, const RunFacts& f);

}  // namespace lathe::train
