#pragma once
// Where checkpoints lie within a run folder: names, the file `latest`, and what is kept.

#include <string>

#include "lathe/base/view.h"

namespace lathe::train {

/// A folder whose name begins so is being written or removed, and is no checkpoint.
inline constexpr const char* kUnfinished = ".tmp-";

std::string checkpoints_folder(const std::string& run_folder);
/// "step-00000050".
std::string checkpoint_name(i64 step);

/// The name in `latest`; empty when there is no such file. Throws Error when it holds anything
/// else, or cannot be looked at.
std::string read_latest(const std::string& run_folder);
/// Whether `latest` can be read and holds this name. Never throws.
bool is_latest(const std::string& run_folder, const std::string& name) noexcept;

/// Whether a run folder holds any.
bool has_checkpoints(const std::string& run_folder);

/// Removes a folder if it is there, in such a way that what a crash leaves is no checkpoint. Never
/// throws: what cannot be removed stays.
void discard(const std::string& folder) noexcept;

/// Removes checkpoints older than `step`, all but the newest keep - 1.
void prune(const std::string& run_folder, i64 step, i64 keep) noexcept;

}  // namespace lathe::train
