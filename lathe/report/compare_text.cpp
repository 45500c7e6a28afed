#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/report/compare.h"
#include "lathe/report/compare_fidelity.h"
#include "lathe/report/compare_series.h"

namespace lathe::report {

namespace {

using Json = nlohmann::ordered_json;

Json real(double v) { return std::isfinite(v) ? Json(v) : Json(nullptr); }

const char* outcome(Verdict v) {
  switch (v) {
    case Verdict::baseline:
      return "baseline";
    case Verdict::within_noise:
      return "within_noise";
    case Verdict::degrades:
      return "degrades";
    case Verdict::better:
      return "better";
    case Verdict::no_band:
      return "no_band";
    case Verdict::no_baseline:
      return "no_baseline";
    case Verdict::diverged:
      return "diverged";
    case Verdict::unfinished:
      break;
  }
  return "unfinished";
}

Json kept_json(const Fidelity& f) {
  Json list = Json::array();
  for (const WeakLayer& l : weak_layers(f))
    list.push_back({{"layer", l.layer},
                    {"operands", l.operands},
                    {"step", l.step},
                    {"lowest_sqnr_db", real(l.sqnr_db)},
                    {"highest_underflow", real(l.underflow)}});
  return list;
}

Json recipe_json(const Comparison& c, const RecipeResult& r) {
  Json j;
  j["recipe"] = r.recipe;
  j["folder"] = r.folder;
  j["outcome"] = outcome(r.verdict);
  j["verdict"] = verdict_text(c, r);
  j["steps"] = r.steps;
  j["finished"] = r.finished;
  j["held_out_loss"] = real(r.held_out_loss);
  j["training_loss"] = real(r.training_loss);
  j["gap_nats"] = real(r.final_gap);
  j["gap_percent"] = real(100 * r.final_share);
  j["training_gap_nats"] = real(r.training_gap);
  j["spikes"] = r.spikes;
  j["diverged_step"] = r.diverged_step > 0 ? Json(r.diverged_step) : Json(nullptr);
  j["diverged_why"] = r.diverged_step > 0 ? Json(r.diverged_why) : Json(nullptr);
  j["tokens_per_second"] = real(r.tokens_per_second);
  j["relative_speed"] = real(r.relative_speed);
  j["bytes_per_parameter"] = real(r.bytes_per_parameter);
  j["keep_in_bf16"] = r.fidelity ? kept_json(*r.fidelity) : Json(nullptr);
  return j;
}

std::string or_none(const char* form, double v) {
  return std::isfinite(v) ? fmt::format(fmt::runtime(form), v) : "–";
}

std::vector<std::string> cells(const Comparison& c, const RecipeResult& r) {
  const bool base = r.verdict == Verdict::baseline;
  return {r.recipe,
          or_none("{:.4f}", r.held_out_loss),
          or_none("{:.4f}", r.training_loss),
          base ? "" : or_none("{:+.4f}", r.final_gap),
          base ? "" : or_none("{:+.2f}", 100 * r.final_share),
          fmt::format("{}", r.spikes),
          or_none("{:.2f}", r.relative_speed),
          or_none("{:.2f}", r.bytes_per_parameter),
          verdict_text(c, r)};
}

std::size_t letters(const std::string& s) {
  return static_cast<std::size_t>(
      std::count_if(s.begin(), s.end(), [](char x) { return (x & 0xC0) != 0x80; }));
}

/// First and last column to the left, the others to the right.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], letters(row[i]));
  std::string out;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string pad(widths[i] - letters(row[i]), ' ');
      if (i + 1 == row.size())
        out += row[i];
      else
        out += (i == 0 ? row[i] + pad : pad + row[i]) + "  ";
    }
    out += "\n";
  }
  return out;
}

std::string noise_line(const Comparison& c) {
  const char* kind = c.by_held_out ? "held-out" : "training";
  if (!std::isfinite(c.noise))
    return fmt::format("no noise band: it takes two finished runs of {} with different seeds\n",
                       c.baseline);
  return fmt::format("noise band: ±{:.4f} nats of {} loss, from {} seeds of {}\n", c.noise, kind,
                     c.seeds, c.baseline);
}

}  // namespace

std::string compare_table(const Comparison& c) {
  std::vector<std::vector<std::string>> rows{{"recipe", "held out", "training", "gap, nats",
                                              "gap, %", "spikes", "speed", "B/param", "verdict"}};
  for (const RecipeResult& r : c.recipes) rows.push_back(cells(c, r));
  // A column that no run can fill says nothing.
  for (const std::size_t column : {7UL, 1UL}) {
    if (std::any_of(rows.begin() + 1, rows.end(), [&](const auto& r) { return r[column] != "–"; }))
      continue;
    for (auto& row : rows) row.erase(row.begin() + static_cast<std::ptrdiff_t>(column));
  }
  std::string out = aligned(rows) + noise_line(c);
  for (const RecipeResult& r : c.recipes) {
    if (!r.fidelity) continue;
    std::vector<std::string> names;
    for (const WeakLayer& l : weak_layers(*r.fidelity)) names.push_back(l.layer);
    if (!names.empty())
      out += fmt::format("keep in bf16 under {}: {}\n", r.recipe, fmt::join(names, ", "));
  }
  return out;
}

std::string compare_json(const Comparison& c) {
  Json j;
  j["folder"] = c.folder;
  j["baseline"] = c.baseline;
  j["steps"] = c.steps;
  j["smoothing_steps"] = c.window;
  j["gap_of"] = c.by_held_out ? "held_out_loss" : "training_loss";
  j["noise"] = {{"seeds", c.seeds},
                {"seeds_left_out", c.seeds_left},
                {"nats", real(c.noise)},
                {"held_out_nats", real(last_value(c.held_out_noise))},
                {"training_nats", real(last_value(c.training_noise))}};
  j["recipes"] = Json::array();
  for (const RecipeResult& r : c.recipes) j["recipes"].push_back(recipe_json(c, r));
  return j.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lathe::report
