#pragma once
// The charts of a comparison. Which line is whose stands in one legend beside them, since a dozen
// names do not fit on a phone's chart.

#include <string>
#include <vector>

#include "lathe/report/compare.h"
#include "lathe/report/page.h"

namespace lathe::report {

/// How the line of the n-th recipe is drawn: the baseline in grey, the others told apart by colour,
/// then by dashes.
struct LineStyle {
  int colour = 0, dash = 0;
};
std::vector<LineStyle> line_styles(const Comparison& c);

/// Names beside pieces of their lines, as HTML; class "key".
std::string legend_html(const Comparison& c);

/// Loss, gap in training loss, gap in held-out loss (where there is one), each for a wide screen
/// (its name ends in -wide) and for a narrow one.
std::vector<Plot> compare_plots(const Comparison& c);

}  // namespace lathe::report
