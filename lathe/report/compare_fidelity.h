#pragma once
// How well a recipe's formats held a run's tensors: fidelity.jsonl of a run folder, one object a
// line, layer, operand and probe:
//
//   {"step": 100, "layer": "layers.0.attn.qkv", "operand": "forward.x", "sqnr_db": 31.5,
//    "underflow": 0.001, "saturated": 0.0, "amax": 4.25}
//
// sqnr_db: 20 log10(|x| / |x - q(x)|); underflow: share of the values that are not 0 and become 0;
// saturated: share of those beyond the format's largest; amax: largest magnitude.

#include <optional>
#include <string>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/report/read.h"

namespace lathe::report {

/// A field that the line lacks, or that is no number there, is kAbsent.
struct Probe {
  i64 step = 0;
  double sqnr_db = kAbsent, underflow = kAbsent, saturated = kAbsent, amax = kAbsent;
};

struct Fidelity {
  std::vector<std::string> layers, operands;        // as they first appear
  std::vector<std::vector<std::vector<Probe>>> at;  // [layer][operand], steps ascending; a step
                                                    // probed twice counts as the later line has it
  i64 unreadable_lines = 0;
};

/// Nothing when the folder has no such file.
std::optional<Fidelity> read_fidelity(const std::string& folder);

/// Below this a probe is weak, and so is one that loses more than that share to underflow: 15
/// points above the 10 % that MXFP4 loses of normal numbers.
inline constexpr double kWeakSqnr = 15, kWeakUnderflow = 0.25;
/// So many weak probes in a row (or all of them, where there are fewer) make a layer one to keep.
inline constexpr i64 kWeakProbes = 3;

bool weak(const Probe& p);

/// A layer to keep in BF16: some operand was weak at kWeakProbes probes in a row.
struct WeakLayer {
  std::string layer;
  std::vector<std::string> operands;  // the weak ones
  i64 step = 0;                       // of the first probe of the first such row
  double sqnr_db = kAbsent;           // lowest of the weak operands' probes
  double underflow = kAbsent;         // highest of them
};
/// Lowest sqnr_db first.
std::vector<WeakLayer> weak_layers(const Fidelity& f);

/// Medians and extremes of an operand's probes; kAbsent where no probe has the value.
struct CellSummary {
  double sqnr_db = kAbsent, lowest_sqnr_db = kAbsent;  // median, lowest
  double underflow = kAbsent, saturated = kAbsent;     // highest
};
CellSummary summarise(const std::vector<Probe>& probes);

}  // namespace lathe::report
