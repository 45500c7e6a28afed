#pragma once
// A whole run: steps, evaluation, checkpoints, going on after a stop.

#include <cstdio>
#include <string>

#include "lathe/base/view.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"

namespace lathe::train {

struct LoopOptions {
  bool use_previous = false;     // go on from the checkpoint before the latest
  std::FILE* people = stdout;    // progress, for people
  std::FILE* records = nullptr;  // each record of the log as it is written; null: none
};

struct Outcome {
  enum class How : u8 { finished, stopped, was_finished };
  How how;
  i64 step = 0;            // the last one done
  std::string checkpoint;  // the folder to go on from
  bool signalled = false;  // it was asked to stop, even if that was after the last step
};

/// Trains the run that `c` describes, from the start or from its latest checkpoint, until its last
/// step or a signal. `need` is measure(c). Throws Error, and Diverged (train/step.h) when the loss
/// is no longer finite; what was reached until the last checkpoint then stays.
Outcome train(const RunConfig& c, const Footprint& need, const LoopOptions& o);

}  // namespace lathe::train
