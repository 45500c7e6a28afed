#pragma once
// What a run needs, from a dry run of its own step: same function, dry kernels, measuring arenas.

#include <string>
#include <utility>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/train/config.h"

namespace lathe::train {

struct Footprint {
  struct Part {
    std::string name;  // weights, gradients, state, kept, scratch, loader, kernels
    i64 bytes;         // peak of its arena
    std::vector<std::pair<std::string, i64>> by_name;
  };
  std::vector<Part> parts;
  Work step;                // of one optimizer step, recomputation included
  Work model;               // of one that recomputes nothing, its padding left out: what MFU counts
  i64 parameters = 0;       // all of them, each counted once
  i64 tokens_per_step = 0;  // unpadded
  i64 total() const;        // bytes of all parts
  i64 part(const std::string& name) const;  // 0 when there is none
};

/// `c` is resolved and checked. Computes nothing, reads no data, takes milliseconds.
Footprint measure(const RunConfig& c);

}  // namespace lathe::train
