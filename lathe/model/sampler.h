#pragma once
// From logits to a token.

#include <span>

#include "lathe/base/view.h"

namespace lathe::model {

struct Sampling {
  double temperature = 0.8;  // divides the logits; 0: always the most likely token
  i64 top_k = 0;             // only the k most likely tokens take part; 0: all
  double top_p = 1;          // only the most likely ones that together reach this probability
  u64 seed = 1;
};

/// The token at `position` of a text: a pure function of its arguments, random bits being those of
/// (seed, position). Of equally likely tokens the smaller id comes first. A NaN counts as
/// impossible. `logits` is not empty.
i32 pick(std::span<const float> logits, const Sampling& s, i64 position);

}  // namespace lathe::model
