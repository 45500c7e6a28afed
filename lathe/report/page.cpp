#include "lathe/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/report/chart.h"
#include "lathe/report/format.h"
#include "lathe/report/read.h"

namespace lathe::report {

namespace {

constexpr std::string_view kLayout = R"css(
*{box-sizing:border-box}
html{color-scheme:light dark;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--back);color:var(--ink);
 font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:1080px;margin:0 auto;padding:24px 16px 48px}
h1{font-size:1.6rem;line-height:1.25;margin:0;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin:36px 0 12px}
p{margin:4px 0 0;max-width:70ch}
.sub,figcaption,.small{color:var(--muted)}
.small,figcaption{font-size:.85rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(145px,1fr));gap:12px;margin:20px 0}
.tile,figure,.note,blockquote,.scroll{background:var(--paper);border:1px solid var(--grid);
 border-radius:10px}
.tile{margin:0;padding:12px 14px}
.tile dt{color:var(--muted);font-size:.85rem}
.tile dd{margin:0}
.tile .value{font-size:1.45rem;font-weight:650;font-variant-numeric:tabular-nums;line-height:1.3}
.note{padding:10px 14px;border-left:4px solid var(--s1);margin:12px 0}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,310px),1fr));gap:12px}
figure{margin:0 0 12px;padding:14px}
.grid figure{margin:0}
figure h3{font-size:1rem;margin:0 0 6px}
figcaption{margin-top:6px}
.chart{display:block;width:100%;height:auto}
.wide{display:block}.narrow{display:none}
@media(max-width:700px){.wide{display:none}.narrow{display:block}main{padding:16px 12px 40px}figure{padding:10px}}
blockquote{margin:0 0 12px;padding:12px 16px;white-space:pre-wrap;overflow-wrap:anywhere;
 font-family:Georgia,"DejaVu Serif",serif}
blockquote b{color:var(--s0);font-weight:600}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:6px 12px;text-align:right;white-space:nowrap;border-bottom:1px solid var(--grid)}
th:first-child,td:first-child{text-align:left}
tr:last-child td{border-bottom:0}
td.text{white-space:normal;overflow-wrap:anywhere;text-align:left}
thead th{color:var(--muted);font-weight:600}
pre{margin:0;padding:14px;font:13px/1.5 ui-monospace,"DejaVu Sans Mono",monospace;overflow-x:auto}
@media print{body{background:#fff}main{max-width:none;padding:0}
 .tile,figure,blockquote,tr{break-inside:avoid}pre{white-space:pre-wrap}.scroll{overflow:visible}}
)css";

std::string tile(std::string_view name, const std::string& value, const std::string& small) {
  return fmt::format(
      "<dl class=\"tile\"><dt>{}</dt><dd class=\"value\">{}</dd><dd class=\"small\">{}</dd></dl>\n",
      name, value, small);
}

std::string tiles(const RunRecord& r, const Summary& s) {
  std::string out = "<div class=\"tiles\">\n";
  out += tile("Held-out loss", plain(s.held_out_loss),
              std::isfinite(s.held_out_loss) ? fmt::format("perplexity {}; best {} at step {}",
                                                           plain(std::exp(s.held_out_loss)),
                                                           plain(s.best_held_out_loss), s.best_step)
                                             : "not evaluated yet");
  out += tile("Training loss", plain(s.loss), "mean of the last 1 % of steps");
  out += tile("Steps", fmt::format("{}", s.steps),
              (std::isfinite(s.total_steps) ? fmt::format("of {:.0f}; ", s.total_steps) : "") +
                  duration(s.seconds) + " in all of them");
  out += tile("Tokens seen", count(s.tokens),
              std::isfinite(r.parameters)
                  ? fmt::format("{} for each of {} parameters", plain(s.tokens / r.parameters),
                                count(r.parameters))
                  : std::string());
  out += tile("Speed", count(s.tokens_per_second),
              fmt::format("tokens/s, median; {} of the peak", percent(s.mfu)));
  out += tile("Memory", bytes(s.peak_rss),
              fmt::format("at most; {} predicted", bytes(s.predicted_memory)));
  return out + "</div>\n";
}

std::string notes(const RunRecord& r, const Summary& s) {
  std::string out;
  const auto add = [&](const std::string& text) {
    out += fmt::format("<p class=\"note\" role=\"note\">{}</p>\n", text);
  };
  if (r.steps.empty()) add("No step has been logged yet.");
  if (s.skipped_steps > 0)
    add(fmt::format(
        "{} steps changed no weight: a gradient overflowed under the scale of the loss, "
        "which was halved. The chart of gradients is broken there.",
        s.skipped_steps));
  if (s.bad_steps > 0)
    add(
        fmt::format("{} steps have a loss or a gradient norm that is no number; the lines in the "
                    "charts are broken there.",
                    s.bad_steps));
  if (r.unreadable_lines > 0)
    add(
        fmt::format("{} of the log's lines could not be read and were left out, the first of them "
                    "line {}. A crash may cut the last line short.",
                    r.unreadable_lines, r.first_unreadable));
  return out;
}

std::string figures(const RunRecord& r) {
  std::string loss, loss_caption, others;
  for (const Plot& p : plots(r)) {
    if (p.title == "Loss") {
      loss +=
          fmt::format("<div class=\"{}\">{}</div>", p.name == "loss" ? "narrow" : "wide", p.svg);
      loss_caption = p.caption;
    } else {
      others += fmt::format("<figure><h3>{}</h3>{}<figcaption>{}</figcaption></figure>\n", p.title,
                            p.svg, p.caption);
    }
  }
  return fmt::format(
      "<h2>Loss</h2>\n<figure>{}<figcaption>{}</figcaption></figure>\n"
      "<h2>How the run went</h2>\n<div class=\"grid\">\n{}</div>\n",
      loss, loss_caption, others);
}

std::string samples(const RunRecord& r) {
  if (r.samples.empty()) return {};
  std::string out = "<h2>What it writes</h2>\n";
  // The newest, and a few on the way there: enough to watch it learn.
  std::vector<std::size_t> shown;
  const std::size_t n = r.samples.size();
  for (std::size_t i = 0; i < std::min<std::size_t>(n, 5); ++i)
    shown.push_back(n <= 5 ? n - 1 - i : (n - 1) * (4 - i) / 4);
  for (const std::size_t i : shown) {
    out += fmt::format("<p class=\"small\">after step {}</p><blockquote><b>{}</b>{}</blockquote>\n",
                       r.samples[i].step, escape(r.prompt), escape(r.samples[i].text));
  }
  return out;
}

/// Steps worth a row: those with a held-out loss when they are few, else evenly spread ones.
std::vector<const StepRecord*> chosen_steps(const RunRecord& r) {
  constexpr std::size_t kRows = 20;
  std::vector<const StepRecord*> all, evaluated;
  for (const StepRecord& s : r.steps) {
    all.push_back(&s);
    if (std::isfinite(s.held_out_loss)) evaluated.push_back(&s);
  }
  const std::vector<const StepRecord*>& from = evaluated.size() >= 3 ? evaluated : all;
  std::vector<const StepRecord*> out;
  const std::size_t rows = std::min(from.size(), kRows);
  for (std::size_t i = 0; i < rows; ++i)
    out.push_back(from[rows == 1 ? 0 : i * (from.size() - 1) / (rows - 1)]);
  return out;
}

std::string step_table(const RunRecord& r) {
  if (r.steps.empty()) return {};
  std::string out =
      "<h2>Steps in numbers</h2>\n<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>"
      "<th scope=\"col\">step</th><th scope=\"col\">loss</th><th scope=\"col\">held out</th>"
      "<th scope=\"col\">gradient norm</th><th scope=\"col\">learning rate</th>"
      "<th scope=\"col\">tokens</th><th scope=\"col\">tokens/s</th><th scope=\"col\">MFU</th>"
      "</tr></thead><tbody>\n";
  for (const StepRecord* s : chosen_steps(r))
    out += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
        "<td>{}</td></tr>\n",
        s->step, plain(s->loss), plain(s->held_out_loss), plain(s->grad_norm), plain(s->lr),
        count(s->tokens), count(s->tokens_per_second), percent(s->mfu));
  return out + "</tbody></table></div>\n";
}

std::string memory_table(const RunRecord& r, const Summary& s) {
  if (r.memory.empty()) return {};
  std::string out =
      "<h2>Memory in numbers</h2>\n<div class=\"scroll\" tabindex=\"0\"><table><thead><tr>"
      "<th scope=\"col\">part</th><th scope=\"col\">predicted</th><th scope=\"col\">bytes</th></tr>"
      "</thead><tbody>\n";
  const auto row = [&](const std::string& name, double value) {
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{:.0f}</td></tr>\n", escape(name),
                       bytes(value), value);
  };
  for (const auto& [name, value] : r.memory) row(name, value);
  row("all of it", s.predicted_memory);
  if (std::isfinite(s.peak_rss)) row("measured at most", s.peak_rss);
  return out + "</tbody></table></div>\n";
}

std::string facts(const RunRecord& r) {
  if (r.facts.empty()) return {};
  std::string out =
      "<h2>Where and how it ran</h2>\n<div class=\"scroll\" tabindex=\"0\"><table><tbody>\n";
  for (const auto& [key, value] : r.facts) {
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', ' ');
    out += fmt::format("<tr><td>{}</td><td class=\"text\">{}</td></tr>\n", escape(name),
                       escape(value));
  }
  return out + "</tbody></table></div>\n";
}

}  // namespace

std::string page_head(const std::string& title) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
      "<meta http-equiv=\"Content-Security-Policy\" "
      "content=\"default-src 'none';style-src 'unsafe-inline'\">"
      "<title>{}</title><style>:root{{--back:#f4f5f7;{}}}"
      "@media(prefers-color-scheme:dark){{:root{{--back:#121417;{}}}}}"
      "@media print{{:root{{--back:#fff;{}}}}}{}{}</style></head>\n<body><main>\n",
      escape(title), palette(false), palette(true), palette(false), kLayout, chart_style());
}

std::string page(const RunRecord& r) {
  const Summary s = summarise(r);
  std::string_view name = r.folder;
  while (name.size() > 1 && name.ends_with('/')) name.remove_suffix(1);
  name = name.substr(name.find_last_of('/') + 1);
  std::string out = page_head(fmt::format("{}: a training run", name));
  out += fmt::format("<h1>{}</h1>\n<p class=\"sub\">A training run, from {}</p>\n", escape(name),
                     escape(r.folder));
  out += notes(r, s) + tiles(r, s) + figures(r) + samples(r) + step_table(r) + memory_table(r, s) +
         facts(r);
  if (!r.config.empty())
    out += fmt::format(
        "<h2>Configuration</h2>\n<div class=\"scroll\" tabindex=\"0\"><pre>{}</pre></div>\n",
        escape(r.config));
  return out + "</main></body></html>\n";
}

}  // namespace lathe::report
