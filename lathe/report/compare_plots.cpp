#include "lathe/report/compare_plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/report/chart.h"
#include "lathe/report/compare.h"
#include "lathe/report/compare_series.h"
#include "lathe/report/format.h"
#include "lathe/report/page.h"

namespace lathe::report {

namespace {

constexpr double kGone = std::numeric_limits<double>::quiet_NaN();

/// Values outside leave the picture: one run that diverges must not flatten all others.
std::vector<Point> within(std::vector<Point> points, double low, double high) {
  for (Point& p : points)
    if (!(p.y >= low && p.y <= high)) p.y = kGone;
  return points;
}

double largest(const std::vector<Point>& points, double from_x) {
  double most = 0;
  for (const Point& p : points)
    if (p.x >= from_x && std::isfinite(p.y)) most = std::max(most, std::fabs(p.y));
  return most;
}

Chart frame(const std::string& name, const char* y_label, bool wide) {
  Chart c;
  c.id = name + (wide ? "-wide" : "");
  c.x_label = "step";
  c.y_label = y_label;
  c.width = wide ? 900 : 370;
  c.height = wide ? 340 : 260;
  c.legend = false;
  return c;
}

Line line_of(const RecipeResult& r, const LineStyle& style, std::vector<Point> points) {
  Line l;
  l.points = std::move(points);
  l.colour = style.colour;
  l.dash = style.dash;
  l.label = r.recipe;
  return l;
}

Chart loss_chart(const Comparison& c, bool wide) {
  Chart out = frame("compare-loss", "smoothed training loss, nats per token", wide);
  out.title = "Training loss of every recipe";
  double highest = 0;
  for (const RecipeResult& r : c.recipes) {
    out.description += r.recipe + " ends at " + plain(r.training_loss) + ". ";
    if (!r.smoothed.empty()) highest = std::max(highest, r.smoothed.front().y);
  }
  const std::vector<LineStyle> styles = line_styles(c);
  for (std::size_t i = 0; i < c.recipes.size(); ++i)
    out.lines.push_back(
        line_of(c.recipes[i], styles[i], within(c.recipes[i].smoothed, 0, 1.1 * highest)));
  return out;
}

/// Every recipe's gap, the noise band around zero. What counts for the scale is the band and the
/// runs that did not diverge, after their start.
Chart gap_chart(const Comparison& c, bool wide, bool by_held_out) {
  Chart out =
      frame(by_held_out ? "compare-held-out-gap" : "compare-gap",
            by_held_out ? "gap in held-out loss, nats" : "gap in training loss, nats", wide);
  out.title = fmt::format("Gap to {}", c.baseline);
  out.band = by_held_out ? c.held_out_noise : c.training_noise;
  const double begin = static_cast<double>(c.steps) / 4;
  std::erase_if(out.band, [&](const Point& p) { return !by_held_out && p.x < begin; });
  double scale = largest(out.band, 0);
  for (const RecipeResult& r : c.recipes)
    if (r.diverged_step == 0)
      scale = std::max(scale, 1.2 * largest(by_held_out ? r.held_out_gap : r.gap, begin));
  if (scale == 0) scale = std::numeric_limits<double>::infinity();
  const std::vector<LineStyle> styles = line_styles(c);
  for (std::size_t i = 0; i < c.recipes.size(); ++i) {
    const RecipeResult& r = c.recipes[i];
    if (r.recipe != c.baseline)
      out.description +=
          r.recipe + " " + plain(last_value(by_held_out ? r.held_out_gap : r.gap)) + ". ";
    Line l = line_of(r, styles[i], within(by_held_out ? r.held_out_gap : r.gap, -scale, scale));
    l.dots = by_held_out && l.points.size() <= 60 && r.recipe != c.baseline;
    out.lines.push_back(std::move(l));
  }
  return out;
}

}  // namespace

std::vector<LineStyle> line_styles(const Comparison& c) {
  constexpr std::array kColours{0, 1, 2, 3, 6, 7, 4};
  constexpr int kGrey = 5;
  std::vector<LineStyle> out;
  std::size_t n = 0;
  for (const RecipeResult& r : c.recipes) {
    if (r.recipe == c.baseline) {
      out.push_back({kGrey, 0});
      continue;
    }
    out.push_back({kColours[n % kColours.size()], static_cast<int>(n / kColours.size() % 3)});
    ++n;
  }
  return out;
}

std::string legend_html(const Comparison& c) {
  std::string out = "<ul class=\"key\">\n";
  const std::vector<LineStyle> styles = line_styles(c);
  for (std::size_t i = 0; i < c.recipes.size(); ++i)
    out += fmt::format(
        "<li><svg class=\"chart\" viewBox=\"0 0 28 12\" aria-hidden=\"true\"><path class=\"line "
        "s{}{}\" d=\"M1 6L27 6\"/></svg>{}</li>\n",
        styles[i].colour,
        styles[i].dash == 1   ? " dashed"
        : styles[i].dash == 2 ? " dotted"
                              : "",
        escape(c.recipes[i].recipe));
  return out + "</ul>\n";
}

std::vector<Plot> compare_plots(const Comparison& c) {
  std::vector<Plot> out;
  const auto add = [&](const Chart& chart, const char* title, std::string caption) {
    out.push_back({chart.id, title, std::move(caption), svg(chart)});
  };
  const std::string band = c.training_noise.empty()
                               ? std::string()
                               : fmt::format(
                                     " The shaded band is what seeds of {} differ by in "
                                     "the quarter of the run that ends there.",
                                     c.baseline);
  for (const bool wide : {true, false}) {
    add(loss_chart(c, wide), "Training loss",
        fmt::format("Mean of {} steps. A line that breaks off belongs to a run that diverged, or "
                    "that has not gone further yet.",
                    c.window));
    add(gap_chart(c, wide, false), "Gap in training loss",
        fmt::format("Loss minus that of {} at the same steps, on the same text, mean of {} steps; "
                    "above zero is worse.{}",
                    c.baseline, c.window, band));
    if (c.by_held_out)
      add(gap_chart(c, wide, true), "Gap in held-out loss",
          fmt::format("On text that no run is trained on, at every evaluation.{}", band));
  }
  return out;
}

}  // namespace lathe::report
