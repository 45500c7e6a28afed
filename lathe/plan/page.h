#pragma once
// What `lathe plan` and the start of `lathe train` show: parameters, memory, work.

#include <string>

#include "lathe/plan/machine.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"

namespace lathe::plan {

/// Operations per trained token by the usual estimate, 6 N + 12 L C T (Chowdhery et al., 2022,
/// appendix B), N being the parameters that take part in a product. Not the work done: no
/// recompute, attention counted without its mask.
double model_flops_per_token(const train::RunConfig& c);

/// The table of memory as lines of text: one a part with its largest takes, the total and what the
/// machine has.
std::string memory_table(const train::Footprint& f, const Memory& m);

/// The whole page as text.
std::string page(const train::RunConfig& c, const train::Footprint& f, const Memory& m);

/// The same as one JSON object: every quantity in bytes or operations.
std::string page_json(const train::RunConfig& c, const train::Footprint& f, const Memory& m);

}  // namespace lathe::plan
