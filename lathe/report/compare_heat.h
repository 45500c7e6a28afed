#pragma once
// The fidelity of every recipe, layer by layer, and the layers to keep in BF16, as HTML.

#include <string>

#include "lathe/report/compare.h"

namespace lathe::report {

/// A section of the page; says how to get one when no run has a fidelity.jsonl.
std::string fidelity_html(const Comparison& c);

/// Background of a cell: orange below kWeakSqnr, the stronger the lower, blue above it, the
/// stronger the higher; none where sqnr_db is kAbsent. Both are thin enough for either page colour.
std::string heat_colour(double sqnr_db);

}  // namespace lathe::report
