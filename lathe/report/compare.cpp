#include "lathe/report/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/report/chart.h"
#include "lathe/report/compare_fidelity.h"
#include "lathe/report/compare_series.h"
#include "lathe/report/page.h"
#include "lathe/report/read.h"

namespace lathe::report {

namespace {

std::vector<Point> series(const RunRecord& r, double StepRecord::* field) {
  std::vector<Point> out;
  out.reserve(r.steps.size());
  for (const StepRecord& s : r.steps) out.push_back({static_cast<double>(s.step), s.*field});
  return out;
}

/// Held-out losses, where there are some.
std::vector<Point> held_out(const RunRecord& r) {
  std::vector<Point> out = series(r, &StepRecord::held_out_loss);
  std::erase_if(out, [](const Point& p) { return !std::isfinite(p.y); });
  return out;
}

/// The run of a folder; one without steps where none has begun.
RunRecord read(const std::string& folder) {
  if (exists(folder + "/log.jsonl")) return read_run(folder);
  RunRecord r;
  r.folder = folder;
  return r;
}

double bytes_per_parameter(const RunRecord& r) {
  double bytes = 0;
  for (const auto& [name, part] : r.memory)
    if (name == "weights" || name == "gradients" || name == "state") bytes += part;
  return bytes > 0 && r.parameters > 0 ? bytes / r.parameters : kAbsent;
}

/// What diverged.json says, unless the run has gone on since.
void read_divergence(RecipeResult& r) {
  const std::string path = r.folder + "/diverged.json";
  if (!exists(path)) return;
  const nlohmann::json j = nlohmann::json::parse(read_file(path), nullptr, false);
  if (!j.is_object() || !j.contains("step") || !j["step"].is_number_integer()) return;
  const i64 step = j["step"].get<i64>();
  if (step < std::max<i64>(1, r.steps)) return;
  r.diverged_step = step;
  if (!j.contains("why") || !j["why"].is_string()) return;
  r.diverged_why = j["why"].get<std::string>();
  if (const std::string named = fmt::format("step {}: ", step); r.diverged_why.starts_with(named))
    r.diverged_why.erase(0, named.size());
}

/// Divergence that only the losses show.
void find_divergence(RecipeResult& r) {
  constexpr std::size_t kFewestSteps = 10;
  for (const StepRecord& s : r.record.steps)
    if (!std::isfinite(s.loss)) {
      r.diverged_step = s.step;
      r.diverged_why = "the log has no loss at this step";
      return;
    }
  if (r.record.steps.size() < kFewestSteps) return;
  const double first = r.smoothed.front().y;
  double lowest = first;
  for (const Point& p : r.smoothed) lowest = std::min(lowest, p.y);
  const double level = lowest + std::max((first - lowest) / 2, std::fabs(lowest) / 10);
  auto last_good = r.smoothed.rbegin();
  while (last_good->y > level) ++last_good;  // ends at the lowest
  if (last_good == r.smoothed.rbegin()) return;
  r.diverged_step = static_cast<i64>(last_good->x) + 1;
  r.diverged_why =
      "from here on the loss stays more than half of what it had fallen above its lowest";
}

RecipeResult read_result(const std::string& recipe, const std::string& folder, i64 window) {
  RecipeResult r;
  r.recipe = recipe;
  r.folder = folder;
  r.record = read(folder);
  const Summary s = summarise(r.record);
  r.steps = s.steps;
  r.finished = s.total_steps > 0 ? static_cast<double>(r.steps) >= s.total_steps : r.steps > 0;
  r.smoothed = trailing_mean(series(r.record, &StepRecord::loss), window);
  r.training_loss = last_value(r.smoothed);
  r.held_out_loss = last_value(held_out(r.record));
  r.spikes = count_spikes(series(r.record, &StepRecord::loss));
  r.tokens_per_second = s.tokens_per_second;
  r.bytes_per_parameter = bytes_per_parameter(r.record);
  r.fidelity = read_fidelity(folder);
  read_divergence(r);
  if (r.diverged_step == 0) find_divergence(r);
  return r;
}

i64 window_of(i64 steps) { return std::max<i64>(1, (steps + 19) / 20); }

/// The band from the seeds that finished.
void find_noise(Comparison& c, const RecipeResult& base, const std::vector<std::string>& seeds) {
  std::vector<std::vector<Point>> smoothed{base.smoothed}, evaluated{held_out(base.record)};
  for (const std::string& folder : seeds) {
    const RecipeResult r = read_result(c.baseline, folder, c.window);
    if (!r.finished || r.diverged_step > 0) {
      ++c.seeds_left;
      continue;
    }
    smoothed.push_back(r.smoothed);
    evaluated.push_back(held_out(r.record));
    ++c.seeds;
  }
  const double quarter = static_cast<double>(c.steps) / 4;
  c.training_noise = trailing_peak(spread(smoothed), quarter);
  c.held_out_noise = trailing_peak(spread(evaluated), quarter);
  c.noise = last_value(c.by_held_out ? c.held_out_noise : c.training_noise);
}

/// The baseline's y at x; kAbsent when there is none.
double value_at(const std::vector<Point>& points, double x) {
  const auto p = std::lower_bound(points.begin(), points.end(), x,
                                  [](const Point& a, double b) { return a.x < b; });
  return p != points.end() && p->x == x ? p->y : kAbsent;
}

void measure_gap(RecipeResult& r, const Comparison& c, const RecipeResult& base) {
  r.relative_speed = r.tokens_per_second / base.tokens_per_second;
  r.gap = trailing_mean(
      difference(series(r.record, &StepRecord::loss), series(base.record, &StepRecord::loss)),
      c.window);
  r.held_out_gap = difference(held_out(r.record), held_out(base.record));
  if (r.diverged_step > 0 || base.diverged_step > 0) return;
  r.training_gap = last_value(r.gap);
  const std::vector<Point>& of = c.by_held_out ? r.held_out_gap : r.gap;
  if (of.empty()) return;
  r.final_gap = of.back().y;
  r.final_share =
      r.final_gap / value_at(c.by_held_out ? held_out(base.record) : base.smoothed, of.back().x);
}

Verdict judge(const RecipeResult& r, const Comparison& c, const RecipeResult* base) {
  if (r.diverged_step > 0) return Verdict::diverged;
  if (!r.finished) return Verdict::unfinished;
  if (&r == base) return Verdict::baseline;
  if (!base || !base->finished || base->diverged_step > 0 || !std::isfinite(r.final_gap))
    return Verdict::no_baseline;
  if (!std::isfinite(c.noise)) return Verdict::no_band;
  if (std::fabs(r.final_gap) <= c.noise) return Verdict::within_noise;
  return r.final_gap > 0 ? Verdict::degrades : Verdict::better;
}

}  // namespace

const RecipeResult* Comparison::base() const {
  const auto b = std::find_if(recipes.begin(), recipes.end(),
                              [&](const RecipeResult& r) { return r.recipe == baseline; });
  return b == recipes.end() ? nullptr : &*b;
}

Comparison compare(const CompareInput& in) {
  Comparison c;
  c.folder = in.folder;
  c.baseline = in.baseline;
  for (const auto& [recipe, folder] : in.runs)
    if (recipe == in.baseline) c.steps = summarise(read(folder)).steps;
  c.window = window_of(c.steps);
  for (const auto& [recipe, folder] : in.runs)
    c.recipes.push_back(read_result(recipe, folder, c.window));
  const RecipeResult* base = c.base();
  if (base) {
    c.by_held_out = std::isfinite(base->held_out_loss);
    if (base->finished && base->diverged_step == 0)
      find_noise(c, *base, in.seeds);
    else
      c.seeds = 0, c.seeds_left = std::ssize(in.seeds) + 1;
    for (RecipeResult& r : c.recipes) measure_gap(r, c, *base);
  }
  for (RecipeResult& r : c.recipes) r.verdict = judge(r, c, base);
  return c;
}

std::string verdict_text(const Comparison& c, const RecipeResult& r) {
  const double percent = 100 * r.final_share;
  switch (r.verdict) {
    case Verdict::baseline:
      return "baseline";
    case Verdict::within_noise:
      return "within noise";
    case Verdict::degrades:
      return fmt::format("degrades by {:.2f} %", percent);
    case Verdict::better:
      return fmt::format("better by {:.2f} %", -percent);
    case Verdict::no_band:
      return fmt::format("{:+.2f} %, no noise band", percent);
    case Verdict::no_baseline:
      return fmt::format("no {} to compare with", c.baseline);
    case Verdict::diverged:
      return fmt::format("diverged at step {}", r.diverged_step);
    case Verdict::unfinished:
      break;
  }
  if (r.steps == 0) return "not begun";
  return r.record.total_steps > 0
             ? fmt::format("at step {} of {:.0f}", r.steps, r.record.total_steps)
             : fmt::format("at step {}", r.steps);
}

}  // namespace lathe::report
