#pragma once
// Stopping by signal: the first SIGINT or SIGTERM asks, the second ends the process at once. SIGHUP
// asks too, but never ends it: a terminal that goes away may say so more than once. It and SIGPIPE
// are of a terminal or a program that is no longer there, which must not cost a checkpoint.

namespace lathe::train {

/// Listens for as long as it lives, during which SIGPIPE is ignored; one at a time. SIGHUP stays
/// ignored where it was (nohup).
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// The signal that came, or 0.
  int received() const;
};

}  // namespace lathe::train
