#pragma once
// Codes of eight bits that moments are stored in, as tables. They are objects of one file and not
// inline: kernels of any instruction set read the same.

#include "lathe/base/view.h"

namespace lathe::kernels {

struct CodeTable {
  float value[256];  // of each code
  // The code of x is how many of these 255 are at most x. As Words::search has them; [0] is unused.
  float tree[256];
  u32 zero;  // the code of 0
};

/// The dynamic map of Dettmers et al. (2110.02861) as bitsandbytes lays it out: codes ascend with
/// their values, which are 0, 1 and, for each decade 10^(i - 6), i = 0..6, the midpoints of 2^i
/// (unsigned 2^(i + 1)) equal parts of [0.1, 1] of it; signed also their negatives, but no -1.
/// Thresholds are midpoints of values: a tie goes to the larger code.
extern const CodeTable kSignedMap, kUnsignedMap;

/// E4M3: values of all codes, NaN as 448; thresholds of the codes 0..126 of what is not negative,
/// ties to the even code.
extern const CodeTable kE4m3;

}  // namespace lathe::kernels
