#pragma once
// log.jsonl of a run folder: one JSON object a step. Reals read back to the same bits.

#include <optional>
#include <string>

#include "lathe/base/view.h"

namespace lathe::train {

struct LogRecord {
  i64 step = 0;
  double loss = 0, grad_norm = 0, lr = 0;
  i64 tokens = 0;                                      // targets learned from since the run began
  double seconds = 0, tokens_per_second = 0, mfu = 0;  // of this step
  i64 rss = 0;                                         // resident bytes of the process
  std::optional<double> held_out_loss;
  std::optional<std::string> sample;
};

/// One line, without its end.
std::string to_json(const LogRecord& r);

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

  /// False when the record could only be kept.
  bool add(const LogRecord& r);

 private:
  std::string path_, pending_;
  int descriptor_ = -1;
  i64 size_ = 0;  // of the whole lines in the file
};

}  // namespace lathe::train
