#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "lathe/base/error.h"
#include "lathe/base/log.h"
#include "lathe/cli/command.h"
#include "lathe/plan/machine.h"
#include "lathe/plan/memory.h"
#include "lathe/plan/page.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"

namespace lathe::cli {

namespace {

int run(const RunFileOptions& o) {
  if (o.keys) {
    print_keys(o.json);
    return 0;
  }
  const train::RunConfig c = read_run_file(o);
  const train::Footprint f = train::measure(c);
  const plan::Memory m = plan::memory();
  if (o.json)
    fmt::print("{}\n", plan::page_json(c, f, m));
  else
    fmt::print("{}", plan::page(c, f, m));
  // The plan was asked for, and here it is: that it does not fit is a remark, not a failure.
  try {
    plan::check_memory(c, f, m);
  } catch (const Error& e) {
    warn("{}\n  hint: {}", e.what(), e.hint());
  }
  return 0;
}

}  // namespace

void add_plan(Commands& c) {
  c.add<RunFileOptions>("plan", "tell a run's parameters, memory and work without running it",
                        "lathe plan configs/tiny.toml\n"
                        "lathe plan configs/gpt2-124m.toml --set train.micro_batch=8 --json\n"
                        "lathe plan --keys\n"
                        "\nEvery key of a run file is described in docs/configuration.md.\n",
                        declare_run_file, run);
}

}  // namespace lathe::cli
