#include "lathe/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/report/format.h"

namespace lathe::report {

namespace {

constexpr double kLetter = 6.7;  // average advance of the 12-pixel font, a little on the safe side
constexpr double kRow = 18;      // height of a row of text

/// Whether a value has a place on a chart: beyond this, differences overflow.
bool drawable(double v) { return std::fabs(v) < 1e300; }

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double v) {
    if (!drawable(v)) return;
    low = std::min(low, v);
    high = std::max(high, v);
  }
  bool empty() const { return low > high; }
};

double text_width(std::string_view s) {
  const auto letters = std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xC0) != 0x80; });
  return kLetter * static_cast<double>(letters);
}

std::string write(std::string (*text)(double), double v) { return text ? text(v) : plain(v); }

/// Where values land on the picture.
struct Axes {
  Range x, y;
  bool log = false;
  double left = 0, right = 0, top = 0, bottom = 0;

  double px(double v) const { return left + (v - x.low) / (x.high - x.low) * (right - left); }
  double py(double v) const {
    const double share =
        log ? std::log(v / y.low) / std::log(y.high / y.low) : (v - y.low) / (y.high - y.low);
    return bottom - share * (bottom - top);
  }
};

Axes axes_of(const Chart& c) {
  Axes a;
  for (const Line& line : c.lines)
    for (const Point& p : line.points)
      if (drawable(p.y)) {
        a.x.add(p.x);
        a.y.add(p.y);
      }
  if (a.y.empty()) return a;
  for (const Point& p : c.band)
    if (drawable(p.y)) {
      a.x.add(p.x);
      a.y.add(p.y);
      a.y.add(-p.y);
    }
  a.log = c.log_y && a.y.low > 1e-300 && a.y.high / a.y.low < 1e300;
  if (c.from_zero && !a.log) a.y.add(0);
  if (a.x.low == a.x.high) a.x = {a.x.low - 1, a.x.high + 1};
  // A flat line stands in the middle of its chart, however small its value.
  const double span = a.y.high - a.y.low, size = std::fabs(a.y.high);
  const double margin = std::max(span > 1e-9 * size ? 0.05 * span : 0.1 * size, 1e-290);
  if (a.log) {
    a.y = {a.y.low / 1.15, a.y.high * 1.15};
  } else {
    const bool floor = c.from_zero && a.y.low == 0;
    a.y = {floor ? 0 : a.y.low - margin, a.y.high + margin};
  }
  return a;
}

std::string legend(const std::vector<std::pair<std::string, int>>& entries, double x, double y) {
  std::string out;
  for (const auto& [label, colour] : entries) {
    out += fmt::format(
        "<rect class=\"f{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" rx=\"2\"/>"
        "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
        colour, x, y - 9, x + 14, y, escape(label));
    x += 14 + text_width(label) + 14;
  }
  return out;
}

std::string grid(const Chart& c, const Axes& a, const std::vector<double>& levels) {
  std::string out;
  for (const double v : levels)
    out += fmt::format(
        "<line class=\"grid\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
        "<text class=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
        a.left, a.right, a.py(v), a.py(v), a.left - 6, a.py(v) + 4, escape(write(c.y_text, v)));
  for (const double v : ticks(a.x.low, a.x.high, c.width > 600 ? 8 : 4)) {
    if (v != std::floor(v)) continue;
    out += fmt::format("<text class=\"mid\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", a.px(v),
                       a.bottom + 16, v < 10000 ? fmt::format("{}", v) : escape(count(v)));
  }
  out += fmt::format("<text class=\"mid soft\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>",
                     (a.left + a.right) / 2, a.bottom + 33, escape(c.x_label));
  return out + fmt::format(
                   "<line class=\"axis\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>",
                   a.left, a.right, a.bottom, a.bottom);
}

/// The band as one shape: along its upper edge, and back along the lower one.
std::string draw_band(const Chart& c, const Axes& a) {
  std::string upper, lower;
  for (const Point& p : thin(c.band, static_cast<i64>(a.right - a.left) / 4)) {
    if (!drawable(p.y)) continue;
    upper += fmt::format("{}{:.1f} {:.1f}", upper.empty() ? "M" : "L", a.px(p.x), a.py(p.y));
    lower.insert(0, fmt::format("L{:.1f} {:.1f}", a.px(p.x), a.py(-p.y)));
  }
  if (upper.empty()) return {};
  return fmt::format("<path class=\"band\" d=\"{}{}Z\"/>", upper, lower);
}

std::string draw(const Chart& c, const Axes& a, const Line& line) {
  std::string path, dots;
  bool pen_down = false, alone = false;
  double x = 0, y = 0;
  // A point with a gap on both sides has no line to show it.
  const auto close = [&] {
    if (alone && !line.dots)
      dots += fmt::format("<circle class=\"f{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\"/>",
                          line.colour, x, y);
    pen_down = alone = false;
  };
  for (const Point& p : thin(line.points, static_cast<i64>(a.right - a.left))) {
    if (!drawable(p.y)) {
      close();
      continue;
    }
    alone = !pen_down;
    x = a.px(p.x);
    y = a.py(p.y);
    path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", x, y);
    pen_down = true;
    if (line.dots)
      dots += fmt::format(
          "<circle class=\"f{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"><title>{} {}: {} {}</title>"
          "</circle>",
          line.colour, x, y, escape(c.x_label), p.x, escape(line.label),
          escape(write(c.y_text, p.y)));
  }
  close();
  const char* dash = line.dash == 1 ? " dashed" : line.dash == 2 ? " dotted" : "";
  return fmt::format("<path class=\"line s{}{}{}\" d=\"{}\"/>", line.colour,
                     line.faint ? " faint" : "", dash, path) +
         dots;
}

std::string open(const std::string& id, const std::string& title, const std::string& description,
                 i64 width, double height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {0} {1:.0f}\" "
      "role=\"img\" aria-labelledby=\"{2}-title {2}-desc\"><title id=\"{2}-title\">{3}</title>"
      "<desc id=\"{2}-desc\">{4}</desc>",
      width, height, escape(id), escape(title), escape(description));
}

constexpr double kBarHeight = 24;

double sum_of(const Bar& bar) {
  double sum = 0;
  for (const Bar::Segment& s : bar.segments)
    if (drawable(s.value)) sum += std::max(s.value, 0.0);
  return sum;
}

/// One bar at height y, `scale` pixels to a unit, its sum behind it.
std::string draw(const BarChart& c, const Bar& bar, double left, double y, double scale) {
  std::string out = fmt::format("<text class=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", left - 6,
                                y + 16, escape(bar.label));
  double x = left;
  for (const Bar::Segment& s : bar.segments) {
    if (!drawable(s.value) || s.value <= 0) continue;
    out += fmt::format(
        "<rect class=\"f{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\">"
        "<title>{} {}</title></rect>",
        s.colour, x, y, std::max(scale * s.value, 0.5), kBarHeight, escape(s.name),
        escape(write(c.text, s.value)));
    x += scale * s.value;
  }
  return out + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", x + 6, y + 16,
                           escape(write(c.text, sum_of(bar))));
}

}  // namespace

std::string svg(const Chart& c) {
  Axes a = axes_of(c);
  std::string out =
      open(c.id, c.title, c.description, c.width, static_cast<double>(c.height)) +
      fmt::format("<text class=\"soft\" x=\"2\" y=\"13\">{}</text>", escape(c.y_label));
  if (a.y.empty())
    return out +
           fmt::format("<text class=\"mid soft\" x=\"{}\" y=\"{}\">nothing logged</text></svg>",
                       c.width / 2, c.height / 2);
  std::vector<std::pair<std::string, int>> entries;
  for (const Line& line : c.lines)
    if (!line.label.empty() && !line.points.empty()) entries.emplace_back(line.label, line.colour);
  const bool named = c.legend && entries.size() > 1;
  a.top = named ? 2 * kRow + 10 : kRow + 8;
  a.bottom = static_cast<double>(c.height) - 40;
  const std::vector<double> levels =
      a.log ? log_ticks(a.y.low, a.y.high) : ticks(a.y.low, a.y.high, c.height > 300 ? 6 : 4);
  double widest = 0;
  for (const double v : levels) widest = std::max(widest, text_width(write(c.y_text, v)));
  a.left = widest + 10;
  a.right = static_cast<double>(c.width) - 14;
  if (named) out += legend(entries, a.left, kRow + 14);
  if (!a.log) out += draw_band(c, a);
  out += grid(c, a, levels);
  for (const Line& line : c.lines) out += draw(c, a, line);
  return out + "</svg>";
}

std::string svg(const BarChart& c) {
  double widest = 0, longest = 0;
  std::vector<std::pair<std::string, int>> entries;
  for (const Bar& bar : c.bars) {
    widest = std::max(widest, text_width(bar.label));
    longest = std::max(longest, sum_of(bar));
    for (const Bar::Segment& s : bar.segments)
      if (!s.name.empty()) entries.emplace_back(s.name, s.colour);
  }
  const double left = widest + 10, pixels = static_cast<double>(c.width) - left - 64;
  double y = 6;
  std::string body;
  for (const Bar& bar : c.bars) {
    body += draw(c, bar, left, y, longest > 0 ? pixels / longest : 0);
    y += kBarHeight + 8;
  }
  for (std::size_t i = 0; i < entries.size();) {  // as many names in a row as fit
    double x = left;
    std::vector<std::pair<std::string, int>> row;
    for (; i < entries.size(); ++i) {
      const double width = 28 + text_width(entries[i].first);
      if (!row.empty() && x + width > static_cast<double>(c.width)) break;
      row.push_back(entries[i]);
      x += width;
    }
    y += kRow;
    body += legend(row, left, y - 4);
  }
  return open(c.id, c.title, c.description, c.width, y + 4) + body + "</svg>";
}

}  // namespace lathe::report
