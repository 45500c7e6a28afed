#include "lathe/report/compare_fidelity.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/base/file.h"
#include "lathe/base/median.h"
#include "lathe/base/view.h"
#include "lathe/report/read.h"

namespace lathe::report {

namespace {

using Json = nlohmann::json;

double number(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number() ? it->get<double>() : kAbsent;
}

std::size_t index_of(std::vector<std::string>& names, const std::string& name) {
  const auto it = std::find(names.begin(), names.end(), name);
  if (it != names.end()) return static_cast<std::size_t>(it - names.begin());
  names.push_back(name);
  return names.size() - 1;
}

std::string text(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

bool add_line(Fidelity& f, std::string_view line) {
  const Json j = Json::parse(line, nullptr, false);
  if (!j.is_object()) return false;
  const auto step = j.find("step");
  const std::string layer = text(j, "layer"), operand = text(j, "operand");
  if (step == j.end() || !step->is_number_integer() || layer.empty() || operand.empty())
    return false;
  const std::size_t row = index_of(f.layers, layer), column = index_of(f.operands, operand);
  f.at.resize(f.layers.size());
  if (f.at[row].size() <= column) f.at[row].resize(column + 1);
  std::vector<Probe>& probes = f.at[row][column];
  const Probe p{step->get<i64>(), number(j, "sqnr_db"), number(j, "underflow"),
                number(j, "saturated"), number(j, "amax")};
  // A run that was stopped and went on may probe a step again.
  while (!probes.empty() && probes.back().step >= p.step) probes.pop_back();
  probes.push_back(p);
  return true;
}

/// Index of the first of enough weak probes in a row; -1 when there are none.
std::ptrdiff_t first_weak_row(const std::vector<Probe>& probes) {
  const auto wanted = std::min<std::ptrdiff_t>(kWeakProbes, std::ssize(probes));
  std::ptrdiff_t row = 0;
  for (std::ptrdiff_t i = 0; i < std::ssize(probes); ++i) {
    row = weak(probes[static_cast<std::size_t>(i)]) ? row + 1 : 0;
    if (row == wanted) return i + 1 - wanted;
  }
  return -1;
}

void add(WeakLayer& l, const std::string& operand, const std::vector<Probe>& probes,
         std::size_t first) {
  l.step = l.operands.empty() ? probes[first].step : std::min(l.step, probes[first].step);
  l.operands.push_back(operand);
  for (const Probe& p : probes) {
    l.sqnr_db = std::fmin(l.sqnr_db, p.sqnr_db);
    l.underflow = std::fmax(l.underflow, p.underflow);
  }
}

}  // namespace

std::optional<Fidelity> read_fidelity(const std::string& folder) {
  const std::string path = folder + "/fidelity.jsonl";
  if (!exists(path)) return std::nullopt;
  Fidelity f;
  // Not mapped: a trainer that starts again cuts it.
  const std::string lines = read_file(path);
  for (std::string_view rest = lines; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") != std::string_view::npos && !add_line(f, line))
      ++f.unreadable_lines;
  }
  for (auto& row : f.at) row.resize(f.operands.size());
  return f;
}

bool weak(const Probe& p) { return p.sqnr_db < kWeakSqnr || p.underflow > kWeakUnderflow; }

std::vector<WeakLayer> weak_layers(const Fidelity& f) {
  std::vector<WeakLayer> out;
  for (std::size_t row = 0; row < f.layers.size(); ++row) {
    WeakLayer l;
    l.layer = f.layers[row];
    for (std::size_t column = 0; column < f.operands.size(); ++column)
      if (const auto first = first_weak_row(f.at[row][column]); first >= 0)
        add(l, f.operands[column], f.at[row][column], static_cast<std::size_t>(first));
    if (!l.operands.empty()) out.push_back(std::move(l));
  }
  const auto rank = [](const WeakLayer& l) {
    return std::isfinite(l.sqnr_db) ? l.sqnr_db : HUGE_VAL;
  };
  std::stable_sort(out.begin(), out.end(),
                   [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return out;
}

CellSummary summarise(const std::vector<Probe>& probes) {
  CellSummary c;
  std::vector<double> known;
  for (const Probe& p : probes) {
    if (std::isfinite(p.sqnr_db)) known.push_back(p.sqnr_db);
    c.lowest_sqnr_db = std::fmin(c.lowest_sqnr_db, p.sqnr_db);
    c.underflow = std::fmax(c.underflow, p.underflow);
    c.saturated = std::fmax(c.saturated, p.saturated);
  }
  c.sqnr_db = median(std::move(known));
  return c;
}

}  // namespace lathe::report
