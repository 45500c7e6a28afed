#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>

#include "lathe/base/file.h"
#include "lathe/base/log.h"
#include "lathe/cli/command.h"
#include "lathe/report/chart.h"
#include "lathe/report/page.h"
#include "lathe/report/read.h"

namespace lathe::cli {

namespace {

struct ReportOptions {
  std::string run, out, svg;
  bool json = false;
};

void declare(CLI::App& a, ReportOptions& o) {
  a.add_option("run", o.run, "run folder")->required()->type_name("FOLDER");
  a.add_option("--out", o.out,
               "the page to write; by default report.html in the run folder, with --json none")
      ->type_name("FILE");
  a.add_option("--svg", o.svg, "folder that also gets every chart as an SVG file")
      ->type_name("FOLDER");
  a.add_flag("--json", o.json, "print the run's numbers as one JSON object, for programs");
}

int run(const ReportOptions& o) {
  const report::RunRecord record = report::read_run(o.run);
  const std::string out = o.out.empty() ? o.run + "/report.html" : o.out;
  if (!o.json || !o.out.empty()) write_atomically(out, report::page(record));
  if (!o.svg.empty()) {
    make_folders(o.svg);
    for (const report::Plot& p : report::plots(record))
      write_atomically(fmt::format("{}/{}.svg", o.svg, p.name), report::svg_file(p.svg));
  }
  if (record.unreadable_lines > 0)
    warn("{}/log.jsonl:{}: {} unreadable lines were left out", o.run, record.first_unreadable,
         record.unreadable_lines);
  if (o.json)
    fmt::print("{}\n", report::summary_json(record));
  else
    fmt::print("{}\n", out);
  return 0;
}

}  // namespace

void add_report(Commands& c) {
  c.add<ReportOptions>("report", "write a run's charts, samples and numbers as one HTML page",
                       "lathe report runs/tiny\n"
                       "lathe report runs/tiny --out tiny.html --svg charts\n"
                       "lathe report runs/tiny --json\n",
                       declare, run);
}

}  // namespace lathe::cli
