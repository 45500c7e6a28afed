#pragma once
// Logs of a run folder, one JSON object a line: log.jsonl has one a step, fidelity.jsonl one for
// each operand of each step that was measured. Reals read back to the same bits.

#include <optional>
#include <string>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/train/fidelity.h"

namespace lathe::train {

struct LogRecord {
  i64 step = 0;
  double loss = 0, grad_norm = 0, lr = 0;
  i64 tokens = 0;                                      // targets learned from since the run began
  double seconds = 0, tokens_per_second = 0, mfu = 0;  // of this step
  i64 rss = 0;                                         // resident bytes of the process
  std::optional<double> loss_scale;                    // where the recipe scales the loss
  bool skipped = false;                                // a gradient overflowed: no weight changed
  std::vector<LevelChange> changes = {};               // of an adaptive recipe
  std::optional<double> held_out_loss;
  std::optional<std::string> sample;
};

/// One line, without its end.
std::string to_json(const LogRecord& r);
/// The same of one operand, for fidelity.jsonl.
std::string to_json(i64 step, const OperandHealth& h);

/// Appends to a log. What cannot be written now (a full disk) is kept and written with a later
/// record.
class RunLog {
 public:
  /// Opens or makes the file and cuts it after the record of `step`: what a run that is resumed
  /// there will write again, or a torn last line. Throws Error when it cannot be opened.
  RunLog(std::string path, i64 step);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  /// A line, which names its step. False when it could only be kept.
  bool add(const std::string& line);
  bool add(const LogRecord& r) { return add(to_json(r)); }
  /// Makes all lines durable. False when that cannot be done now.
  bool sync();

 private:
  bool flush();

  std::string path_, pending_;
  int descriptor_ = -1;
  i64 size_ = 0;  // of the whole lines in the file
};

}  // namespace lathe::train
