#pragma once
// A run as one HTML page that needs nothing else: no script, no network, readable on a phone, in
// the dark and on paper.

#include <string>
#include <vector>

#include "lathe/report/read.h"

namespace lathe::report {

/// What is worth knowing of a run in a few numbers; what the log does not tell is kAbsent.
struct Summary {
  i64 steps = 0;                 // the last one logged
  double total_steps = kAbsent;  // of the whole run
  double loss = kAbsent;         // mean over the last 1 % of the steps, at least one
  double held_out_loss = kAbsent, best_held_out_loss = kAbsent;
  i64 best_step = 0;  // where the best was; 0: none
  double tokens = kAbsent, seconds = kAbsent;
  double tokens_per_second = kAbsent, mfu = kAbsent;  // medians
  double peak_rss = kAbsent, predicted_memory = kAbsent;
  i64 skipped_steps = 0;  // that a scale of the loss was too large for
  i64 bad_steps = 0;      // others whose loss or gradient norm is logged as no number
};
Summary summarise(const RunRecord& r);

/// A chart of the page. "loss-wide" and "loss" show the same for a wide and a narrow screen.
struct Plot {
  std::string name;  // of its file, without ending
  std::string title, caption;
  std::string svg;  // an <svg> element
};
std::vector<Plot> plots(const RunRecord& r);

/// The whole page.
std::string page(const RunRecord& r);

/// Opens an HTML page in the look of all of them, up to and with <main>: style within, nothing from
/// outside. Closed by "</main></body></html>".
std::string page_head(const std::string& title);

/// The summary as one JSON object; what is absent is null.
std::string summary_json(const RunRecord& r);

}  // namespace lathe::report
