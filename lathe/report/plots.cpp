#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "lathe/report/chart.h"
#include "lathe/report/format.h"
#include "lathe/report/page.h"
#include "lathe/report/read.h"

namespace lathe::report {

namespace {

std::vector<Point> points(const RunRecord& r, double StepRecord::* field) {
  std::vector<Point> out;
  out.reserve(r.steps.size());
  for (const StepRecord& s : r.steps) out.push_back({static_cast<double>(s.step), s.*field});
  return out;
}

/// Only the points that are there: held-out losses stand at a few steps, which is no gap.
std::vector<Point> present(std::vector<Point> all) {
  std::erase_if(all, [](const Point& p) { return !std::isfinite(p.y); });
  return all;
}

/// Whether the largest value dwarfs the ordinary ones, so that only a logarithm shows both.
bool spread_out(const std::vector<Point>& series) {
  std::vector<double> values;
  for (const Point& p : series)
    if (std::isfinite(p.y)) values.push_back(p.y);
  if (values.size() < 2) return false;
  std::sort(values.begin(), values.end());
  const double middle = values[values.size() / 2];
  return values.front() > 0 && values.back() > 8 * middle;
}

constexpr std::size_t kSmoothFrom = 40;  // with fewer points a mean hides more than it shows

Chart loss_chart(const RunRecord& r, bool wide) {
  Chart c;
  c.id = wide ? "loss-wide" : "loss";
  c.title = "Loss over the run";
  c.x_label = "step";
  c.y_label = "loss, nats per token";
  c.width = wide ? 900 : 370;
  c.height = wide ? 340 : 280;
  std::vector<Point> raw = points(r, &StepRecord::loss);
  std::vector<Point> held_out = present(points(r, &StepRecord::held_out_loss));
  const Summary s = summarise(r);
  c.description = "Training loss ends at " + plain(s.loss) + ", held-out loss at " +
                  plain(s.held_out_loss) + ", after " + plain(static_cast<double>(s.steps)) +
                  " steps.";
  if (raw.size() >= kSmoothFrom) {
    const double half_life = std::max(4.0, static_cast<double>(raw.size()) / 150);
    c.lines.push_back({"", raw, 0, true, false});
    c.lines.push_back({"training, smoothed", smooth(raw, half_life), 0, false, false});
  } else {
    c.lines.push_back({"training", std::move(raw), 0, false, false});
  }
  const bool dots = held_out.size() <= 60;
  if (!held_out.empty()) c.lines.push_back({"held out", std::move(held_out), 1, false, dots});
  return c;
}

Chart simple(const RunRecord& r, const char* id, const char* y_label, double StepRecord::* field,
             int colour, std::string (*text)(double)) {
  Chart c;
  c.id = id;
  c.title = c.y_label = y_label;
  c.x_label = "step";
  c.y_text = text;
  c.from_zero = true;
  const std::vector<Point> series = points(r, field);
  const std::vector<Point> known = present(series);
  c.description = known.empty() ? "Nothing was logged."
                                : "Ends at " + (text ? text : plain)(known.back().y) + ".";
  if (!known.empty()) c.lines.push_back({y_label, series, colour, false, false});
  return c;
}

Chart norm_chart(const RunRecord& r) {
  Chart c =
      simple(r, "grad-norm", "global norm, before clipping", &StepRecord::grad_norm, 3, nullptr);
  c.log_y = spread_out(points(r, &StepRecord::grad_norm));
  return c;
}

BarChart memory_chart(const RunRecord& r) {
  BarChart c;
  c.id = "memory";
  c.title = "Memory predicted and measured";
  c.text = bytes;
  const Summary s = summarise(r);
  c.description =
      "Predicted " + bytes(s.predicted_memory) + ", measured at most " + bytes(s.peak_rss) + ".";
  Bar predicted{"predicted", {}};
  std::vector<std::pair<std::string, double>> parts = r.memory;
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  constexpr std::array kPartColours{0, 1, 2, 3, 4, 6, 7};  // 5 is the measured bar's
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i].second > 0)
      predicted.segments.push_back(
          {parts[i].first, parts[i].second, kPartColours[i % kPartColours.size()]});
  if (!predicted.segments.empty()) c.bars.push_back(std::move(predicted));
  if (std::isfinite(s.peak_rss)) c.bars.push_back({"measured", {{"", s.peak_rss, 5}}});
  return c;
}

}  // namespace

std::vector<Plot> plots(const RunRecord& r) {
  std::vector<Plot> out;
  const auto add = [&](const auto& c, std::string title, std::string caption) {
    out.push_back({c.id, std::move(title), std::move(caption), svg(c)});
  };
  for (const bool wide : {true, false})
    add(loss_chart(r, wide), "Loss",
        "How badly the next token is predicted, as −ln of the probability given to it: lower is "
        "better. Held-out text is never trained on; when its loss turns up while training loss "
        "falls, the model is learning its text by heart.");
  add(simple(r, "learning-rate", "learning rate", &StepRecord::lr, 2, nullptr), "Learning rate",
      "How far the optimizer moves at each step.");
  add(norm_chart(r), "Gradient norm",
      "Length of the gradient over all parameters. Spikes are steps that clipping tamed.");
  add(simple(r, "speed", "tokens per second", &StepRecord::tokens_per_second, 4, count), "Speed",
      "Tokens learned from in a second, step by step.");
  add(simple(r, "mfu", "share of the measured peak", &StepRecord::mfu, 0, percent),
      "Use of the machine",
      "Work of the model's products against the peak measured on this machine before the run.");
  if (const BarChart memory = memory_chart(r); !memory.bars.empty())
    add(memory, "Memory",
        "Predicted before the run from a dry step; measured is the most that a step left the "
        "process with.");
  return out;
}

}  // namespace lathe::report
