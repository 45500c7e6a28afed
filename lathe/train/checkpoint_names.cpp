#include "lathe/train/checkpoint_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/log.h"
#include "lathe/base/view.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/manifest.h"

namespace lathe::train {
namespace {

namespace fs = std::filesystem;

std::string latest_path(const std::string& run_folder) {
  return checkpoints_folder(run_folder) + "/latest";
}

/// The step of a checkpoint's name, -1 when it is not one.
i64 step_of(std::string_view name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return -1;
  const std::string_view digits = name.substr(kPrefix.size());
  i64 step = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  return error == std::errc{} && end == digits.data() + digits.size() &&
                 name == checkpoint_name(step)
             ? step
             : -1;
}

/// Calls f(name) for everything in the folder of checkpoints, as far as it can be read.
template <class F>
void for_names(const std::string& run_folder, const F& f) {
  std::error_code e;
  const fs::directory_iterator end;
  for (fs::directory_iterator i(checkpoints_folder(run_folder), e); !e && i != end; i.increment(e))
    f(i->path().filename().string());
}

/// Steps that the run has a checkpoint of, ascending.
std::vector<i64> steps_of(const std::string& run_folder) {
  std::vector<i64> steps;
  for_names(run_folder, [&](const std::string& name) {
    if (const i64 s = step_of(name); s >= 0) steps.push_back(s);
  });
  std::sort(steps.begin(), steps.end());
  return steps;
}

/// What is wrong with a checkpoint, if anything is.
std::optional<Error> damage_of(const std::string& folder) {
  try {
    read_verified(folder);
  } catch (const Error& e) {
    return e;
  }
  return std::nullopt;
}

/// The name of the checkpoint to go on from; empty where the run has none.
std::string latest_name(const std::string& run_folder) {
  std::string name = read_latest(run_folder);
  if (!name.empty()) return name;
  const std::vector<i64> steps = steps_of(run_folder);
  if (steps.empty()) return {};
  // So does a run leave it that died before it could write its first `latest`.
  if (steps.size() == 1) return checkpoint_name(steps.front());
  throw Error("the file that names the latest of {} checkpoints is missing", steps.size())
      .at(latest_path(run_folder))
      .hint("echo {} > {}", checkpoint_name(steps.back()), latest_path(run_folder));
}

/// The newest one that is older than `latest` and whole.
std::string previous_folder(const std::string& run_folder, const std::string& latest) {
  std::vector<i64> older = steps_of(run_folder);
  std::erase_if(older, [&](i64 s) { return s >= step_of(latest); });
  for (; !older.empty(); older.pop_back()) {
    std::string folder = checkpoints_folder(run_folder) + "/" + checkpoint_name(older.back());
    const std::optional<Error> damage = damage_of(folder);
    if (!damage) return folder;
    warn("passed over {}: {} ({})", checkpoint_name(older.back()), damage->what(), damage->where());
  }
  throw Error("there is no whole checkpoint before {}", latest)
      .at(checkpoints_folder(run_folder))
      .hint("start again in another folder: --set run.folder=…");
}

}  // namespace

std::string checkpoints_folder(const std::string& run_folder) {
  return run_folder + "/checkpoints";
}

std::string checkpoint_name(i64 step) { return fmt::format("step-{:08}", step); }

std::string read_latest(const std::string& run_folder) {
  const std::string path = latest_path(run_folder);
  const std::optional<std::string> text = read_if_there(path);
  if (!text) return {};
  std::string name = *text;
  if (name.ends_with('\n')) name.pop_back();
  if (step_of(name) < 0)
    throw Error("the file that names the latest checkpoint is damaged")
        .at(path)
        .hint("write the name of a checkpoint beside it into it, such as {}", checkpoint_name(100));
  return name;
}

bool is_latest(const std::string& run_folder, const std::string& name) noexcept {
  try {
    return read_latest(run_folder) == name;
  } catch (const std::exception&) {
    return false;
  }
}

bool has_checkpoints(const std::string& run_folder) {
  return exists(latest_path(run_folder)) || !steps_of(run_folder).empty();
}

void discard(const std::string& folder) noexcept {
  std::error_code e;
  const fs::path path(folder);
  const std::string name = path.filename().string();
  if (name.starts_with(kUnfinished)) {
    fs::remove_all(path, e);
    return;
  }
  const fs::path aside = path.parent_path() / (kUnfinished + ("old-" + name));
  fs::remove_all(aside, e);
  fs::rename(path, aside, e);
  fs::remove_all(aside, e);
}

void prune(const std::string& run_folder, i64 step, i64 keep) noexcept {
  std::vector<i64> older = steps_of(run_folder);
  std::erase_if(older, [step](i64 s) { return s >= step; });
  const i64 gone = static_cast<i64>(older.size()) - (keep - 1);
  for (i64 i = 0; i < gone; ++i)
    discard(checkpoints_folder(run_folder) + "/" +
            checkpoint_name(older[static_cast<std::size_t>(i)]));
}

void remove_unfinished_checkpoints(const std::string& run_folder) {
  for_names(run_folder, [&](const std::string& name) {
    if (name.starts_with(kUnfinished)) discard(checkpoints_folder(run_folder) + "/" + name);
  });
  remove_leftovers(latest_path(run_folder));
}

void move_latest(const std::string& run_folder, const std::string& checkpoint) {
  write_atomically(latest_path(run_folder), fs::path(checkpoint).filename().string() + "\n");
}

void go_on_from(const std::string& run_folder, const std::string& checkpoint, i64 keep) {
  const std::string name = fs::path(checkpoint).filename().string();
  if (!is_latest(run_folder, name)) move_latest(run_folder, checkpoint);
  for (const i64 step : steps_of(run_folder)) {
    if (step <= step_of(name)) continue;
    const std::string behind = checkpoints_folder(run_folder) + "/" + checkpoint_name(step);
    const std::optional<Error> damage = damage_of(behind);
    if (!damage) continue;
    warn("removed {}: {} ({})", checkpoint_name(step), damage->what(), damage->where());
    discard(behind);
  }
  prune(run_folder, step_of(name), keep);
}

std::string find_checkpoint(const std::string& path, Pick pick) {
  if (exists(path + "/" + kManifestName)) {
    if (pick == Pick::latest) return path;
    throw Error("this is one checkpoint, and not a run that has others before it")
        .at(path)
        .hint("name the run folder, or leave --use-previous out");
  }
  const std::string latest = latest_name(path);
  if (latest.empty()) return {};
  if (pick == Pick::previous) return previous_folder(path, latest);
  const std::string folder = checkpoints_folder(path) + "/" + latest;
  if (!is_folder(folder))
    throw Error("the latest checkpoint, {}, is not there", latest)
        .at(latest_path(path))
        .hint("`lathe train RUN.toml --use-previous` goes on from the one before it");
  return folder;
}

}  // namespace lathe::train
