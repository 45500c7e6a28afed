#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/report/compare.h"
#include "lathe/report/compare_heat.h"
#include "lathe/report/compare_plots.h"
#include "lathe/report/format.h"
#include "lathe/report/page.h"

namespace lathe::report {

namespace {

constexpr std::string_view kStyle = R"css(<style>
.key{display:flex;flex-wrap:wrap;gap:4px 18px;list-style:none;margin:0 0 12px;padding:0;font-size:.9rem}
.key li{display:flex;align-items:center;gap:6px}.key svg{width:28px;height:12px;flex:none}
.good{color:var(--s2);font-weight:600}.bad{color:var(--s1);font-weight:600}
.dead{color:var(--s7);font-weight:600}
.runs td,.runs th{padding:6px 8px}
td.verdict{text-align:left}th.verdict{text-align:left}
.heat td,.heat th{padding:3px 8px;font-size:.8rem}.heat td{text-align:center;cursor:default}
.heat thead th{text-align:center}.heat th[scope=row]{text-align:left;font-weight:400}
details{margin:0 0 12px}summary{cursor:pointer;padding:4px 0}
.words dt{font-weight:600;margin-top:10px}.words dd{margin:0;max-width:75ch}
.keep{margin:4px 0 16px;padding-left:22px}
</style>
)css";

std::string name_of(std::string_view folder) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.remove_suffix(1);
  return std::string(folder.substr(folder.find_last_of('/') + 1));
}

std::string number(const char* form, double v) {
  return std::isfinite(v) ? fmt::format(fmt::runtime(form), v) : "–";
}

std::string verdict_cell(const Comparison& c, const RecipeResult& r) {
  const char* mood = r.verdict == Verdict::within_noise || r.verdict == Verdict::better ? "good"
                     : r.verdict == Verdict::degrades                                   ? "bad"
                     : r.verdict == Verdict::diverged                                   ? "dead"
                                                                                        : "soft";
  return fmt::format("<td class=\"verdict\"><span class=\"{}\">{}</span></td>", mood,
                     escape(verdict_text(c, r)));
}

std::string table(const Comparison& c) {
  const bool memory = std::any_of(c.recipes.begin(), c.recipes.end(), [](const RecipeResult& r) {
    return std::isfinite(r.bytes_per_parameter);
  });
  std::string out =
      "<h2>Verdicts</h2>\n<div class=\"scroll\" tabindex=\"0\"><table class=\"runs\"><thead><tr>"
      "<th scope=\"col\">recipe</th><th scope=\"col\" class=\"verdict\">verdict</th>";
  for (const char* name :
       {"gap, nats", "gap, %", "held-out loss", "training loss", "spikes", "speed"})
    out += fmt::format("<th scope=\"col\">{}</th>", name);
  if (memory) out += "<th scope=\"col\">bytes/parameter</th>";
  out += "</tr></thead><tbody>\n";
  for (const RecipeResult& r : c.recipes) {
    const bool base = r.verdict == Verdict::baseline;
    out += fmt::format(
        "<tr><td>{}</td>{}<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>",
        escape(r.recipe), verdict_cell(c, r), base ? "" : number("{:+.4f}", r.final_gap),
        base ? "" : number("{:+.2f}", 100 * r.final_share), number("{:.4f}", r.held_out_loss),
        number("{:.4f}", r.training_loss), r.spikes, number("{:.2f}", r.relative_speed));
    if (memory) out += fmt::format("<td>{}</td>", number("{:.2f}", r.bytes_per_parameter));
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string notes(const Comparison& c) {
  std::string out;
  const auto add = [&](const std::string& text) {
    out += fmt::format("<p class=\"note\" role=\"note\">{}</p>\n", text);
  };
  const auto unfinished =
      std::count_if(c.recipes.begin(), c.recipes.end(),
                    [](const RecipeResult& r) { return r.verdict == Verdict::unfinished; });
  if (unfinished > 0)
    add(fmt::format("{} of {} recipes have not finished; the command that began them goes on.",
                    unfinished, c.recipes.size()));
  const std::string base = escape(c.baseline);
  if (!std::isfinite(c.noise))
    add(
        fmt::format("There is no noise band: it takes two finished runs of {} with different "
                    "seeds, and there are {}.",
                    base, c.seeds));
  if (c.seeds_left > 0 && c.seeds > 0)
    add(
        fmt::format("{} runs of {} with other seeds diverged or have not finished, and are left "
                    "out of the noise band.",
                    c.seeds_left, base));
  for (const RecipeResult& r : c.recipes) {
    if (r.diverged_step > 0)
      add(fmt::format("<b>{}</b> diverged at step {}{}{}.", escape(r.recipe), r.diverged_step,
                      r.diverged_why.empty() ? "" : ": ", escape(r.diverged_why)));
    if (r.record.unreadable_lines > 0)
      add(fmt::format("{} lines of the log of {} could not be read and were left out.",
                      r.record.unreadable_lines, escape(r.recipe)));
  }
  return out;
}

std::string figures(const Comparison& c) {
  const std::vector<Plot> all = compare_plots(c);
  const std::size_t kinds = all.size() / 2;
  std::string out = "<h2>Curves</h2>\n" + legend_html(c);
  for (std::size_t i = 0; i < kinds; ++i)
    out += fmt::format(
        "<figure><h3>{}</h3><div class=\"wide\">{}</div><div class=\"narrow\">{}</div>"
        "<figcaption>{}</figcaption></figure>\n",
        all[i].title, all[i].svg, all[kinds + i].svg, escape(all[i].caption));
  return out;
}

std::string words(const Comparison& c) {
  const std::string b = escape(c.baseline);
  std::string out = "<h2>What the words mean</h2>\n<dl class=\"words\">\n";
  const auto add = [&](const char* word, const std::string& meaning) {
    out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", word, meaning);
  };
  add("smoothed", fmt::format("The mean of the training losses of the last {} steps: 5 % of the "
                              "{} that {} was trained for.",
                              c.window, c.steps, b));
  add("gap", fmt::format("The recipe's loss minus that of {} from the same start, on the same "
                         "text in the same order: {}. The percentage is of the loss of {}.",
                         b,
                         c.by_held_out ? "of held-out loss, at the last evaluation"
                                       : "of smoothed training loss, at the last step",
                         b));
  std::string seeds = fmt::format(
      "The largest difference between any two of the runs of {} that differ in run.seed alone "
      "(initial weights and order of the text), in the last quarter of the run",
      b);
  if (std::isfinite(c.noise))
    seeds += fmt::format(": {} runs, {:.4f} nats of {} loss", c.seeds, c.noise,
                         c.by_held_out ? "held-out" : "training");
  add("noise band",
      seeds +
          ". It is an estimate from few runs: of three single values that differ by chance alone, "
          "the third lies further from the first than the second does half the time. So take a "
          "gap a little beyond the band as a reason for more seeds (--noise-seeds), not as a "
          "finding.");
  add("verdict",
      "Within noise: the gap is no larger than the band, in either direction. Degrades or better: "
      "it is larger.");
  add("diverged",
      "A loss, gradient or weight was no longer a finite number; or the smoothed loss rose from "
      "its "
      "lowest by more than half of what it had fallen by (and more than a tenth of the lowest), "
      "and "
      "stayed there to the end.");
  add("spikes",
      fmt::format("Steps whose loss stands above the median of the 50 before by more than 5 "
                  "robust standard deviations (1.4826 times the median distance from the median) "
                  "and by more than 2 % of it. A hard piece of text makes one in every recipe: "
                  "compare with those of {}.",
                  b));
  add("speed", fmt::format("Median of tokens per second, over that of {}, as measured here: "
                           "emulated formats are no faster than what emulates them.",
                           b));
  add("bytes/parameter",
      "Weights, their copies for products, gradients and optimizer state, as predicted by the "
      "run's dry step.");
  return out + "</dl>\n";
}

std::string folders(const Comparison& c) {
  std::string out =
      "<h2>The runs</h2>\n<div class=\"scroll\" tabindex=\"0\"><table class=\"runs\"><thead><tr>"
      "<th scope=\"col\">recipe</th><th scope=\"col\">steps</th><th scope=\"col\">tokens/s</th>"
      "<th scope=\"col\" class=\"verdict\">folder</th></tr></thead><tbody>\n";
  for (const RecipeResult& r : c.recipes)
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"text\">{}</td></tr>\n",
                       escape(r.recipe), r.steps, count(r.tokens_per_second), escape(r.folder));
  return out + "</tbody></table></div>\n";
}

}  // namespace

std::string compare_page(const Comparison& c) {
  std::string out = page_head(fmt::format("{}: recipes compared", name_of(c.folder)));
  out += kStyle;
  out += fmt::format(
      "<h1>{}: recipes compared</h1>\n<p class=\"sub\">The same run in {} recipes, against {}; {} "
      "steps, from {}</p>\n",
      escape(name_of(c.folder)), c.recipes.size(), escape(c.baseline), c.steps, escape(c.folder));
  out += notes(c) + table(c) + figures(c) + fidelity_html(c) + words(c) + folders(c);
  return out + "</main></body></html>\n";
}

}  // namespace lathe::report
