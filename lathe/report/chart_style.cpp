#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "lathe/report/chart.h"

namespace lathe::report {

namespace {

struct Colour {
  std::string_view name, light, dark;
};

// Series colours hold 4.5:1 against the page in either mode.
constexpr std::array kColours{
    Colour{"ink", "#1c1f23", "#e8eaed"},  Colour{"muted", "#5b6470", "#a3acb8"},
    Colour{"grid", "#e3e6ea", "#31363d"}, Colour{"paper", "#ffffff", "#1b1e22"},
    Colour{"s0", "#1d5fd1", "#7fb0ff"},   Colour{"s1", "#c2410c", "#ff9f5f"},
    Colour{"s2", "#23783a", "#6fd38a"},   Colour{"s3", "#86309c", "#dd94f2"},
    Colour{"s4", "#0c6f80", "#68d0e0"},   Colour{"s5", "#66707c", "#aab3be"},
    Colour{"s6", "#8a6100", "#e3bd4d"},   Colour{"s7", "#b3236b", "#ff8fc0"},
};

/// var(--name) turned into its light value: many converters know no CSS variables.
std::string with_light_values(std::string css) {
  for (const Colour& c : kColours) {
    const std::string name = fmt::format("var(--{})", c.name);
    for (std::size_t at = css.find(name); at != std::string::npos; at = css.find(name, at))
      css.replace(at, name.size(), c.light);
  }
  return css;
}

/// "0 0 420 260" of the element's viewBox.
std::string view_box(const std::string& svg_element) {
  constexpr std::string_view kKey = "viewBox=\"0 0 ";
  const std::size_t begin = svg_element.find(kKey) + kKey.size();
  return svg_element.substr(begin, svg_element.find('"', begin) - begin);
}

}  // namespace

std::string palette(bool dark) {
  std::string out;
  for (const Colour& c : kColours) out += fmt::format("--{}:{};", c.name, dark ? c.dark : c.light);
  return out;
}

std::string chart_style() {
  std::string out =
      ".chart{font:12px system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif}"
      ".chart text{fill:var(--ink)}.chart .soft{fill:var(--muted)}"
      ".chart .end{text-anchor:end}.chart .mid{text-anchor:middle}"
      ".chart .grid{stroke:var(--grid)}.chart .axis{stroke:var(--muted)}"
      ".chart .line{fill:none;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}"
      ".chart .faint{opacity:.35;stroke-width:1}"
      ".chart .dashed{stroke-dasharray:7 4}.chart .dotted{stroke-dasharray:1.5 4}"
      ".chart .band{fill:var(--muted);opacity:.22}";
  for (int i = 0; i < 8; ++i)
    out += fmt::format(".chart .s{0}{{stroke:var(--s{0})}}.chart .f{0}{{fill:var(--s{0})}}", i);
  return out;
}

std::string svg_file(const std::string& svg_element) {
  const std::string box = view_box(svg_element);
  const std::size_t space = box.find(' ');
  const std::string width = box.substr(0, space), height = box.substr(space + 1);
  const std::size_t after_name = svg_element.find("<svg") + 4;
  const std::size_t after_tag = svg_element.find('>') + 1;
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg width=\"{}\" height=\"{}\"{}<style>{}"
      "</style><rect width=\"100%\" height=\"100%\" fill=\"{}\"/>{}\n",
      width, height, svg_element.substr(after_name, after_tag - after_name),
      with_light_values(chart_style()), kColours[3].light, svg_element.substr(after_tag));
}

}  // namespace lathe::report
