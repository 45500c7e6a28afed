#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/cpu.h"
#include "lathe/base/error.h"
#include "lathe/kernels/kernels.h"

namespace lathe::kernels {

namespace {

std::vector<Candidate> rank_candidates() {
  Candidate bf16{&avx512bf16(), why_not(Isa::avx512bf16)};
  Candidate wide{&avx512(), why_not(Isa::avx512)};
  // AMD runs VDPBF16PS as often as FMA, so twice the products; Intel half as often, so none gained.
  if (cpu().vendor == "GenuineIntel") std::swap(bf16, wide);
  return {{&amx(), why_not(Isa::amx)},
          std::move(bf16),
          std::move(wide),
          {&avx2(), why_not(Isa::avx2)},
          {&ref(), {}}};
}

std::vector<std::string> names() {
  std::vector<std::string> names{"auto"};
  for (const Candidate& c : candidates()) names.emplace_back(c.table->name);
  return names;
}

}  // namespace

const std::vector<Candidate>& candidates() {
  static const std::vector<Candidate> all = rank_candidates();
  return all;
}

const Kernels& select(const std::string& name) {
  for (const Candidate& c : candidates()) {
    if (name == "auto" && c.why_not.empty()) return *c.table;
    if (name != c.table->name) continue;
    if (!c.why_not.empty())
      throw Error("kernels \"{}\" cannot run here: {}", name, c.why_not)
          .hint("use kernels = \"auto\": the best that this machine runs is {}",
                select("auto").name);
    return *c.table;
  }
  const std::vector<std::string> known = names();
  const std::string near = nearest(name, known);
  Error error("no kernels are called \"{}\"", name);
  if (near.empty()) throw error.hint("known are {}", fmt::join(known, ", "));
  throw error.hint("did you mean \"{}\"? Known are {}", near, fmt::join(known, ", "));
}

std::string describe(const Kernels& chosen) {
  std::string s(chosen.name), passed;
  for (const Candidate& c : candidates()) {
    if (c.table == &chosen) break;
    const std::string reason = c.why_not.empty() ? "not asked for" : c.why_not;
    passed +=
        fmt::format("{}{} passed over: {}", passed.empty() ? "" : "; ", c.table->name, reason);
  }
  return passed.empty() ? s : fmt::format("{} ({})", s, passed);
}

}  // namespace lathe::kernels
