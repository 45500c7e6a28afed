#pragma once
// Whether a run fits into memory, and if not, what would: found by dry runs of the same step.

#include <optional>
#include <string>

#include "lathe/plan/machine.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"

namespace lathe::plan {

/// What the process takes besides the parts of a Footprint: code, tokenizer, buffers of files.
inline constexpr i64 kProcessBytes = 100'000'000;

/// Two keys that change memory and no result, unless gradients are stored in BF16.
struct Fit {
  i64 micro_batch = 0;
  std::string recompute;
  i64 bytes = 0;  // of the whole process
};

/// The quickest way to run `c` within `bytes`: the configured recompute with the largest
/// micro-batch that fits, else a stronger recompute likewise. None: nothing fits.
std::optional<Fit> largest_fit(const train::RunConfig& c, i64 bytes);

/// Throws Error when the run needs more than this machine has, saying what it needs, what there is
/// and what would fit. `f` is measure(c).
void check_memory(const train::RunConfig& c, const train::Footprint& f, const Memory& m = memory());

/// Throws Error when `bytes` more, for `what`, are not to be had.
void check_room(const std::string& what, i64 bytes, const Memory& m = memory());

}  // namespace lathe::plan
