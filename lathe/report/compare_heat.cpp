#include "lathe/report/compare_heat.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/report/compare.h"
#include "lathe/report/compare_fidelity.h"
#include "lathe/report/format.h"

namespace lathe::report {

namespace {

std::string cell(const std::string& layer, const std::string& operand,
                 const std::vector<Probe>& probes) {
  if (probes.empty()) return "<td>–</td>";
  const CellSummary s = summarise(probes);
  const std::string shown = std::isfinite(s.sqnr_db) ? fmt::format("{:.1f}", s.sqnr_db) : "–";
  return fmt::format(
      "<td{} title=\"{} {}: median {} dB, lowest {} dB; underflow at most {}, saturated at most "
      "{}; {} probes\">{}</td>",
      heat_colour(s.sqnr_db), escape(layer), escape(operand), plain(s.sqnr_db),
      plain(s.lowest_sqnr_db), percent(s.underflow), percent(s.saturated), probes.size(), shown);
}

std::string heat_map(const RecipeResult& r, const Fidelity& f) {
  constexpr std::size_t kShownAtOnce = 32;
  std::string out = fmt::format(
      "<details{}><summary>{}: {} layers, {} operands</summary>\n<div class=\"scroll\" "
      "tabindex=\"0\"><table class=\"heat\"><thead><tr><th scope=\"col\">layer</th>",
      f.layers.size() <= kShownAtOnce ? " open" : "", escape(r.recipe), f.layers.size(),
      f.operands.size());
  for (const std::string& o : f.operands)
    out += fmt::format("<th scope=\"col\">{}</th>", escape(o));
  out += "</tr></thead><tbody>\n";
  for (std::size_t row = 0; row < f.layers.size(); ++row) {
    out += fmt::format("<tr><th scope=\"row\">{}</th>", escape(f.layers[row]));
    for (std::size_t column = 0; column < f.operands.size(); ++column)
      out += cell(f.layers[row], f.operands[column], f.at[row][column]);
    out += "</tr>\n";
  }
  return out + "</tbody></table></div></details>\n";
}

std::string keep_list(const RecipeResult& r, const Fidelity& f) {
  const std::vector<WeakLayer> weak = weak_layers(f);
  if (weak.empty()) return fmt::format("<p><b>{}</b>: none.</p>\n", escape(r.recipe));
  std::string out = fmt::format(
      "<p><b>{}</b>: {} of {} layers, the weakest first.</p>\n<ul "
      "class=\"keep\">\n",
      escape(r.recipe), weak.size(), f.layers.size());
  for (const WeakLayer& l : weak)
    out +=
        fmt::format("<li>{}: {}; {} dB at the lowest, underflow {} at most, from step {} on</li>\n",
                    escape(l.layer), escape(fmt::format("{}", fmt::join(l.operands, ", "))),
                    plain(l.sqnr_db), percent(l.underflow), l.step);
  return out + "</ul>\n";
}

}  // namespace

std::string heat_colour(double sqnr_db) {
  if (!std::isfinite(sqnr_db)) return {};
  constexpr double kFull = 15;  // dB from the threshold to the strongest colour
  const double strength = std::clamp((sqnr_db - kWeakSqnr) / kFull, -1.0, 1.0);
  return fmt::format(" style=\"background:rgba({},{:.2f})\"",
                     strength < 0 ? "230,95,20" : "40,120,230", 0.08 + 0.4 * std::fabs(strength));
}

std::string fidelity_html(const Comparison& c) {
  std::string maps, lists;
  i64 unreadable = 0;
  for (const RecipeResult& r : c.recipes)
    if (r.fidelity && !r.fidelity->layers.empty()) {
      maps += heat_map(r, *r.fidelity);
      if (r.recipe != c.baseline) lists += keep_list(r, *r.fidelity);
      unreadable += r.fidelity->unreadable_lines;
    }
  std::string out = "<h2>Fidelity of every layer</h2>\n";
  if (maps.empty())
    return out +
           "<p>No run has a fidelity.jsonl, in which training notes how well each layer's formats "
           "hold its tensors. With one in a run's folder, this section shows a map of layers and "
           "operands, and which layers to keep in BF16. Its lines "
           "read</p>\n<pre>{&quot;step&quot;: "
           "100, &quot;layer&quot;: &quot;layers.0.attn.qkv&quot;, &quot;operand&quot;: "
           "&quot;forward.x&quot;, &quot;sqnr_db&quot;: 31.5, &quot;underflow&quot;: 0.001, "
           "&quot;saturated&quot;: 0, &quot;amax&quot;: 4.25}</pre>\n";
  out += fmt::format(
      "<p class=\"small\">Signal over rounding error, in decibels, median of a run's probes: "
      "20 log10(|x| / |x − q(x)|). Blue is above {:.0f} dB, orange below.</p>\n",
      kWeakSqnr);
  out += maps;
  if (unreadable > 0)
    out += fmt::format(
        "<p class=\"note\" role=\"note\">{} lines of fidelity.jsonl could not be "
        "read and were left out.</p>\n",
        unreadable);
  if (lists.empty()) return out;
  return out + "<h2>Layers to keep in BF16</h2>\n" +
         fmt::format(
             "<p class=\"small\">Those with an operand that stood below {:.0f} dB, or lost more "
             "than {:.0f} % of its values to underflow, at {} probes in a row.</p>\n",
             kWeakSqnr, 100 * kWeakUnderflow, kWeakProbes) +
         lists;
}

}  // namespace lathe::report
