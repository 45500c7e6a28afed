#pragma once
// What a person sees of a run: one live line on a terminal, a plain line now and then elsewhere.

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

#include "lathe/base/view.h"
#include "lathe/train/runlog.h"

namespace lathe::train {

/// Bytes of this process that are in memory now.
i64 resident_bytes();

/// "1 h 04 min", "3 min 20 s", "12 s".
std::string duration(double seconds);

/// Nobody may be listening any more: what cannot be written is dropped.
class Progress {
 public:
  /// `first` is the first step of this session, `steps` the last of the run, `memory` the bytes
  /// that were predicted.
  Progress(std::FILE* out, i64 first, i64 steps, i64 memory);
  /// Ends the live line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void step(const LogRecord& r);
  /// A line that stays.
  void say(std::string_view text);

 private:
  std::string describe(const LogRecord& r) const;
  void put(std::string_view text);
  void clear();

  std::FILE* out_;
  i64 first_, steps_, memory_;
  bool terminal_, live_ = false;
  std::chrono::steady_clock::time_point start_, shown_;
};

}  // namespace lathe::train
