#pragma once
// A run as its folder tells it: log.jsonl, run.json, config.toml. Written for files that a crash
// cut short, that lack fields, or that a person has edited.

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/view.h"

namespace lathe::report {

inline constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

/// One line of the log. A field that the line lacks, or that is no number there, is kAbsent.
struct StepRecord {
  i64 step = 0;
  double loss = kAbsent, grad_norm = kAbsent, lr = kAbsent;
  double tokens = kAbsent;   // learned from since the run began
  double seconds = kAbsent;  // of this step
  double tokens_per_second = kAbsent, mfu = kAbsent;
  double rss = kAbsent;  // bytes of the process
  double held_out_loss = kAbsent;
  bool skipped = false;  // a gradient overflowed under the scale of the loss: no weight has changed
};

struct SampleRecord {
  i64 step = 0;
  std::string text;
};

struct RunRecord {
  std::string folder;
  std::vector<StepRecord> steps;  // ascending; a step logged twice counts as the later line has it
  std::vector<SampleRecord> samples;
  std::vector<std::pair<std::string, double>> memory;      // predicted bytes by part
  std::vector<std::pair<std::string, std::string>> facts;  // what else run.json says
  std::string prompt;                                      // of the samples
  std::string config;                                      // TOML; empty when there is no such file
  double total_steps = kAbsent, parameters = kAbsent, flops_per_step = kAbsent;
  i64 unreadable_lines = 0, first_unreadable = 0;  // of the log; lines count from 1
};

/// Throws Error when `folder` is no run folder, when its log cannot be read or holds not one
/// readable line in a log that is not empty.
RunRecord read_run(const std::string& folder);

}  // namespace lathe::report
