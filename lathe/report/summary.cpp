#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lathe/base/median.h"
#include "lathe/report/page.h"
#include "lathe/report/read.h"

namespace lathe::report {

namespace {

/// One field of every step that has it.
std::vector<double> column(const RunRecord& r, double StepRecord::* field) {
  std::vector<double> out;
  out.reserve(r.steps.size());
  for (const StepRecord& s : r.steps)
    if (std::isfinite(s.*field)) out.push_back(s.*field);
  return out;
}

/// Mean of the last 1 % of the losses.
double recent_loss(const RunRecord& r) {
  const std::size_t wanted = std::max<std::size_t>(1, r.steps.size() / 100);
  double sum = 0;
  std::size_t n = 0;
  for (auto s = r.steps.rbegin(); s != r.steps.rend() && n < wanted; ++s)
    if (std::isfinite(s->loss)) {
      sum += s->loss;
      ++n;
    }
  return n > 0 ? sum / static_cast<double>(n) : kAbsent;
}

nlohmann::json real(double v) {
  return std::isfinite(v) ? nlohmann::json(v) : nlohmann::json(nullptr);
}

}  // namespace

Summary summarise(const RunRecord& r) {
  Summary s;
  s.total_steps = r.total_steps;
  for (const auto& [name, bytes] : r.memory)
    s.predicted_memory = (std::isfinite(s.predicted_memory) ? s.predicted_memory : 0) + bytes;
  if (r.steps.empty()) return s;
  s.steps = r.steps.back().step;
  s.loss = recent_loss(r);
  s.tokens_per_second = median(column(r, &StepRecord::tokens_per_second));
  s.mfu = median(column(r, &StepRecord::mfu));
  for (const StepRecord& step : r.steps) {
    if (std::isfinite(step.tokens)) s.tokens = step.tokens;
    if (std::isfinite(step.seconds))
      s.seconds = (std::isfinite(s.seconds) ? s.seconds : 0) + step.seconds;
    if (std::isfinite(step.rss)) s.peak_rss = std::fmax(s.peak_rss, step.rss);
    if (step.skipped)
      ++s.skipped_steps;
    else if (!std::isfinite(step.loss) || !std::isfinite(step.grad_norm))
      ++s.bad_steps;
    if (!std::isfinite(step.held_out_loss)) continue;
    s.held_out_loss = step.held_out_loss;
    if (s.best_step != 0 && !(step.held_out_loss < s.best_held_out_loss)) continue;
    s.best_held_out_loss = step.held_out_loss;
    s.best_step = step.step;
  }
  return s;
}

std::string summary_json(const RunRecord& r) {
  const Summary s = summarise(r);
  nlohmann::ordered_json j;
  j["folder"] = r.folder;
  j["steps"] = s.steps;
  j["total_steps"] = real(s.total_steps);
  j["loss"] = real(s.loss);
  j["held_out_loss"] = real(s.held_out_loss);
  j["best_held_out_loss"] = real(s.best_held_out_loss);
  j["best_step"] = s.best_step;
  j["perplexity"] = real(std::exp(s.held_out_loss));
  j["tokens"] = real(s.tokens);
  j["seconds"] = real(s.seconds);
  j["tokens_per_second"] = real(s.tokens_per_second);
  j["mfu"] = real(s.mfu);
  j["peak_rss"] = real(s.peak_rss);
  j["predicted_memory"] = real(s.predicted_memory);
  j["parameters"] = real(r.parameters);
  j["bad_steps"] = s.bad_steps;
  j["skipped_steps"] = s.skipped_steps;
  j["unreadable_lines"] = r.unreadable_lines;
  return j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace lathe::report
