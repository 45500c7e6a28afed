#pragma once
// Runs in a process of their own, with signals that come at one record of the log and not at some
// moment of the clock.

#include <signal.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"
#include "lathe/train/loop.h"

namespace lathe::train {

/// A stream for LoopOptions::records: raises the signals when line number `step` is written to it.
class RaisingStream {
 public:
  RaisingStream(i64 step, std::vector<int> signals)
      : step_(step),
        signals_(std::move(signals)),
        file_(fopencookie(this, "w", {nullptr, &RaisingStream::write, nullptr, nullptr})) {}
  ~RaisingStream() { std::fclose(file_); }
  RaisingStream(const RaisingStream&) = delete;
  RaisingStream& operator=(const RaisingStream&) = delete;

  std::FILE* file() const { return file_; }

 private:
  static ssize_t write(void* self, const char* text, std::size_t bytes) {
    auto& s = *static_cast<RaisingStream*>(self);
    const i64 before = s.lines_;
    s.lines_ += std::count(text, text + bytes, '\n');
    if (before < s.step_ && s.lines_ >= s.step_)
      for (const int number : s.signals_) raise(number);
    return static_cast<ssize_t>(bytes);
  }

  i64 step_, lines_ = 0;
  std::vector<int> signals_;
  std::FILE* file_;
};

/// The status that waitpid gives of a process that does f() and exits with what it returns, or with
/// 8 where it throws.
template <class F>
int status_of_process(const F& f) {
  const pid_t child = fork();
  if (child == 0) {
    try {
      _exit(f());
    } catch (...) {
      _exit(8);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

/// Trains in a process of its own that sends itself signals once it has logged `step`. It exits
/// with 0 when it was stopped by them. `people`: null: nowhere.
inline int train_and_signal(const RunConfig& c, i64 step, const std::vector<int>& signals,
                            std::FILE* people = nullptr) {
  return status_of_process([&] {
    const RaisingStream records(step, signals);
    std::FILE* to = people ? people : std::fopen("/dev/null", "w");
    const Outcome end =
        train(c, measure(c), {.use_previous = false, .people = to, .records = records.file()});
    return end.how == Outcome::How::stopped ? 0 : 9;
  });
}

}  // namespace lathe::train
