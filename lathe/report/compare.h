#pragma once
// Runs of one run file in several recipes, side by side: what each recipe costs in loss against a
// baseline, and whether that is more than seeds of the baseline differ by. Reads run folders alone.
// The words, for a baseline of n steps:
//
//   smoothed      training loss: mean of the window of logged steps that ends there; the window is
//                 5 % of n, rounded up
//   gap           in training loss: smoothed difference to the baseline's loss at the same steps;
//                 in held-out loss: difference where both were evaluated. A recipe's gap is that in
//                 held-out loss at the last evaluation (in training loss at the last step, when
//                 nothing is held out)
//   noise band    largest difference between any two seeds of the baseline in the n / 4 steps that
//                 end there: of smoothed training losses, or of held-out losses. The band of a
//                 verdict is the one at step n, of the kind that the gap is of
//   spikes        see count_spikes
//   diverged      a loss, gradient or weight was no longer finite; or a run of 10 steps or more
//   lost
//                 for good more than half of what it had gained: its smoothed loss ended above
//                 m + max((f - m) / 2, m / 10) with f the first and m the lowest smoothed loss. The
//                 step is the one after the last at which it was not above that

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/report/chart.h"
#include "lathe/report/compare_fidelity.h"
#include "lathe/report/read.h"

namespace lathe::report {

struct CompareInput {
  std::string folder;    // of the run that is compared; names the page
  std::string baseline;  // one of the recipes
  std::vector<std::pair<std::string, std::string>> runs;  // recipe and folder; may not have begun
  std::vector<std::string> seeds;  // folders of the baseline's recipe with other seeds
};

enum class Verdict : u8 {
  baseline,
  within_noise,  // |gap| <= noise
  degrades,      // gap > noise
  better,        // gap < -noise
  no_band,       // there is a gap, but only one seed of the baseline
  no_baseline,   // the baseline has not finished
  diverged,
  unfinished
};

struct RecipeResult {
  std::string recipe, folder;
  RunRecord record;
  bool finished = false;
  i64 steps = 0;                    // the last one logged
  i64 diverged_step = 0;            // 0: it did not
  std::string diverged_why;         // what the run said
  std::vector<Point> smoothed;      // training loss
  std::vector<Point> gap;           // in training loss, nats
  std::vector<Point> held_out_gap;  // nats
  double held_out_loss = kAbsent;   // of the last evaluation
  double training_loss = kAbsent;   // smoothed, at the last step
  double training_gap = kAbsent;    // the last of `gap`
  double final_gap = kAbsent;       // what the verdict is about, nats
  double final_share = kAbsent;     // over the baseline's loss there
  i64 spikes = 0;
  double tokens_per_second = kAbsent;    // median
  double relative_speed = kAbsent;       // over the baseline's
  double bytes_per_parameter = kAbsent;  // predicted: weights, gradients, optimizer state
  Verdict verdict = Verdict::unfinished;
  std::optional<Fidelity> fidelity;
};

struct Comparison {
  std::string folder, baseline;
  std::vector<RecipeResult> recipes;  // as given
  i64 seeds = 1;                      // of the baseline that finished, its own included
  i64 seeds_left = 0;                 // out of the band: not finished, or diverged
  i64 steps = 0;                      // of the baseline
  i64 window = 1;                     // steps
  bool by_held_out = false;           // what the gap of a verdict is in
  std::vector<Point> training_noise, held_out_noise;  // half-width of the band at a step
  double noise = kAbsent;                             // that of verdicts

  /// The baseline's; null when it is not among the recipes.
  const RecipeResult* base() const;
};

/// Throws Error when a folder's log cannot be read.
Comparison compare(const CompareInput& in);

/// "within noise", "degrades by 1.30 %", "diverged at step 120", …
std::string verdict_text(const Comparison& c, const RecipeResult& r);

/// For a terminal.
std::string compare_table(const Comparison& c);
/// One JSON object; what is absent is null.
std::string compare_json(const Comparison& c);
/// One HTML page that needs nothing else.
std::string compare_page(const Comparison& c);

}  // namespace lathe::report
