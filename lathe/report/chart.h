#pragma once
// Line charts and stacked bars as SVG text: no script, no outside resource. Colours come from
// classes (s0, s1, … for series), so that a page can restyle them; see chart_style().

#include <string>
#include <vector>

#include "lathe/base/view.h"

namespace lathe::report {

/// A y that is not finite breaks the line there.
struct Point {
  double x = 0, y = 0;
};

struct Line {
  std::string label;
  std::vector<Point> points;  // x ascending
  int colour = 0;             // 0 … 7
  bool faint = false;         // in the background, such as raw values behind a smoothed line
  bool dots = false;          // mark each point, with its numbers as a tooltip
  int dash = 0;               // 0 drawn through, 1 in dashes, 2 in dots
};

struct Chart {
  std::string id;           // unique on the page, [a-z-]+
  std::string title;        // read out, not drawn
  std::string description;  // read out, not drawn
  std::string x_label, y_label;
  std::string (*y_text)(double) = nullptr;  // writes tick labels
  std::vector<Line> lines;
  bool legend = true;       // false: the page names the lines
  std::vector<Point> band;  // shaded from -y to y at each x, behind the lines; x ascending
  bool from_zero = false;   // the y axis starts at 0
  bool log_y = false;       // ignored when a finite y is not positive
  i64 width = 370, height = 240;
};

/// One bar of segments that add up.
struct Bar {
  std::string label;
  struct Segment {
    std::string name;
    double value = 0;
    int colour = 0;
  };
  std::vector<Segment> segments;
};

struct BarChart {
  std::string id, title, description;
  std::string (*text)(double) = nullptr;
  std::vector<Bar> bars;
  i64 width = 370;
};

/// An <svg> element with title, desc and viewBox, without style.
std::string svg(const Chart& c);
std::string svg(const BarChart& c);

/// The same as a file of its own: style and background within, light, with a size in pixels, so
/// that any converter turns it into a picture.
std::string svg_file(const std::string& svg_element);

/// CSS of the classes, reading the page's variables --ink --muted --grid --paper --s0 … --s7.
std::string chart_style();
/// Values of those variables for a light or a dark page: "--ink:#1c1f23;…".
std::string palette(bool dark);

/// At most two points (lowest and highest, in order) for each of `buckets` equal spans of x, and
/// the gaps. Series of at most 2 * buckets points are returned as they are.
std::vector<Point> thin(const std::vector<Point>& points, i64 buckets);

/// Round numbers (1, 2 or 5 times a power of ten apart) that lie in [low, high], about `wanted`.
std::vector<double> ticks(double low, double high, int wanted);
/// Round numbers for a logarithmic axis.
std::vector<double> log_ticks(double low, double high);

/// Exponential mean whose half-life is 2 % of the points so far, at least one and at most
/// `half_life` points: early on, when a loss falls fast, it follows closely. Gaps stay gaps.
std::vector<Point> smooth(const std::vector<Point>& points, double half_life);

}  // namespace lathe::report
