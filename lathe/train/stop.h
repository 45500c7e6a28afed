#pragma once
// Stopping by signal: the first SIGINT or SIGTERM asks, the second ends the process at once.

namespace lathe::train {

/// Listens for as long as it lives; one at a time.
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
