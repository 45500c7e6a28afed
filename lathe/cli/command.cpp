#include "lathe/cli/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/cpu.h"
#include "lathe/base/error.h"
#include "lathe/base/version.h"
#include "lathe/train/config.h"

namespace lathe::cli {

struct Commands::Impl {
  CLI::App app{"Lathe plans and trains transformer language models on CPUs.", "lathe"};
  std::map<const CLI::App*, std::function<int()>> runs;
};

namespace {

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(sub->get_name());
  return names;
}

/// "did you mean --tokens?" or where the help is.
std::string suggestion(const std::string& word, const std::vector<std::string>& known,
                       const std::string& command) {
  const std::string near = nearest(word, known);
  if (!near.empty()) return fmt::format("did you mean {}?", near);
  return fmt::format("see: {} --help", command);
}

/// What is typed to get there: "lathe" or "lathe precision compare".
std::string full_name(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent ? full_name(*parent) + " " + app.get_name() : "lathe";
}

Error unknown_command(const std::string& word, const CLI::App& app) {
  const std::vector<std::string> known = command_names(app);
  const std::string before = full_name(app).substr(5);
  Error e("there is no command '{}{}{}'", before.empty() ? "" : before.substr(1),
          before.empty() ? "" : " ", word);
  const std::string near = nearest(word, known);
  if (near.empty())
    e.hint("the commands are {}", fmt::join(known, ", "));
  else
    e.hint("did you mean {} {}?", full_name(app), near);
  return e;
}

/// What no option or argument took. CLI11 counts a "--" that did its work among it.
std::vector<std::string> not_taken(const CLI::App& app) {
  std::vector<std::string> rest = app.remaining();
  std::erase(rest, "--");
  return rest;
}

Error unexpected_arguments(const CLI::App& sub) {
  const std::vector<std::string> extra = not_taken(sub);
  const std::string command = full_name(sub);
  const auto flag =
      std::find_if(extra.begin(), extra.end(), [](const auto& s) { return s.starts_with("-"); });
  if (flag == extra.end()) {
    Error e("{} does not take the argument '{}'", command, extra.empty() ? "" : extra.front());
    e.hint("see: {} --help", command);
    return e;
  }
  const std::string word = flag->substr(0, flag->find('='));
  std::vector<std::string> known;
  for (const CLI::Option* o : sub.get_options())
    for (const std::string& name : o->get_lnames()) known.push_back("--" + name);
  Error e("{} has no option {}", command, word);
  const std::string behind =
      word.starts_with("--") ? "" : fmt::format("; a value that begins with - goes behind --");
  e.hint("{}{}", suggestion(word, known, command), behind);
  return e;
}

/// The innermost command that was named.
CLI::App* chosen(CLI::App& app) {
  CLI::App* at = nullptr;
  for (std::vector<CLI::App*> subs = app.get_subcommands(); !subs.empty();
       subs = at->get_subcommands())
    at = subs.front();
  return at;
}

/// Throws when a word that should name a command names none.
void check_names(const std::vector<std::string>& arguments, CLI::App& app) {
  CLI::App* at = &app;
  for (const std::string& word : arguments) {
    const std::vector<std::string> known = command_names(*at);
    if (known.empty() || word.starts_with("-")) return;
    if (std::find(known.begin(), known.end(), word) == known.end())
      throw unknown_command(word, *at);
    at = at->get_subcommand(word);
  }
}

/// Parses; true when a command is to be run, false when help or the version was printed.
bool parse(CLI::App& app, std::vector<std::string> arguments) {
  // lathe help plan: the same as lathe plan --help
  if (!arguments.empty() && arguments.front() == "help") {
    arguments.erase(arguments.begin());
    arguments.push_back("--help");
  }
  check_names(arguments, app);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& e) {
    app.exit(e);
    return false;
  } catch (const CLI::ParseError& e) {
    const CLI::App* sub = chosen(app);
    if (sub && !not_taken(*sub).empty()) throw unexpected_arguments(*sub);
    Error error("{}", e.what());
    error.hint("see: {} --help", full_name(sub ? *sub : app));
    throw error;
  }
  if (CLI::App* sub = chosen(app)) {
    if (!not_taken(*sub).empty()) throw unexpected_arguments(*sub);
    // Behind a "--" that follows an argument, CLI11 hands the rest to the program itself.
    if (!not_taken(app).empty())
      throw Error("'--' stands behind an argument").hint("put it before the first one");
    if (command_names(*sub).empty()) return true;
  } else if (!not_taken(app).empty()) {
    throw unexpected_arguments(app);
  }
  std::fputs(app.help().c_str(), stdout);
  return false;
}

}  // namespace

Commands::Commands() : impl_(std::make_unique<Impl>()) {
  CLI::App& app = impl_->app;
  app.set_version_flag("--version", fmt::format("lathe {}", kVersion), "print the version");
  app.set_help_flag("-h,--help", "print this help");
  app.get_formatter()->column_width(28);
  app.allow_extras();
  app.footer(
      "A first run:\n"
      "  lathe data my_texts/ --vocab 4096 --out data/mine\n"
      "  lathe train configs/tiny.toml --set data.shards=data/mine\n"
      "  lathe sample runs/tiny --prompt \"Once upon a time\"\n"
      "\nEach command has its own --help. A user's mistake ends with exit code 2.");
}

Commands::~Commands() = default;

void Commands::group(const std::string& name, const std::string& about) {
  CLI::App& sub = *impl_->app.add_subcommand(name, about);
  sub.group("Commands");
  sub.set_help_flag("-h,--help", "print this help");
  sub.allow_extras();
  sub.footer("Each command has its own --help.");
}

CLI::App& Commands::add_app(const std::string& name, const std::string& about,
                            const std::string& examples, std::function<int()> run) {
  const std::size_t space = name.find(' ');
  CLI::App& over =
      space == std::string::npos ? impl_->app : *impl_->app.get_subcommand(name.substr(0, space));
  CLI::App& sub = *over.add_subcommand(name.substr(space + 1), about);
  sub.group("Commands");
  sub.set_help_flag("-h,--help", "print this help");
  sub.allow_extras();
  std::string footer = "Examples:\n";
  bool prose = false;
  for (std::size_t begin = 0; begin < examples.size();) {
    const std::size_t end = std::min(examples.find('\n', begin), examples.size());
    prose = prose || end == begin;
    footer += fmt::format("{}{}\n", prose ? "" : "  ", examples.substr(begin, end - begin));
    begin = end + 1;
  }
  if (footer.ends_with('\n')) footer.pop_back();
  sub.footer(footer);
  impl_->runs[&sub] = std::move(run);
  return sub;
}

int Commands::run(std::span<const std::string> arguments) {
  int code = 2;
  try {
    code = 0;
    if (parse(impl_->app, {arguments.begin(), arguments.end()}))
      code = impl_->runs.at(chosen(impl_->app))();
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      throw Error("cannot write to the standard output");
  } catch (const Error& e) {
    code = 2;
    std::fputs(e.report().c_str(), stderr);
  } catch (const std::bad_alloc&) {
    code = 2;
    std::fputs(
        "error: the machine would not give this process more memory\n"
        "  hint: lathe plan RUN.toml shows what a run needs; lathe doctor what there is\n",
        stderr);
  } catch (const std::exception& e) {
    code = 2;
    std::fputs(Error("{}", e.what()).report().c_str(), stderr);
  }
  return code;
}

int MachineOptions::workers() const { return threads > 0 ? threads : usable_cores(); }

void declare_machine(CLI::App& a, MachineOptions& o) {
  a.add_option("--threads", o.threads, "worker threads; 0: every core this process may use")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  a.add_option("--kernels", o.kernels, "kernel table; auto: the best that this machine runs")
      ->capture_default_str();
}

void declare_run_file(CLI::App& a, RunFileOptions& o) {
  a.add_option("run_file", o.path, "run file (TOML)")->type_name("RUN.toml");
  a.add_option("--set", o.overrides,
               "override a key of the run file, as in --set train.steps=10; may be repeated")
      ->type_name("SECTION.KEY=VALUE");
  a.add_flag("--keys", o.keys, "list every key of a run file, its default and meaning");
  a.add_flag("--json", o.json, "print JSON, for programs");
}

train::RunConfig read_run_file(const RunFileOptions& o) {
  RunFileOptions r = o;
  // In `--set a.b=1 run.toml` the parser gives the file to --set.
  for (auto it = r.overrides.begin(); r.path.empty() && it != r.overrides.end(); ++it)
    if (it->find('=') == std::string::npos && it->ends_with(".toml")) {
      r.path = *it;
      r.overrides.erase(it);
      break;
    }
  if (r.path.empty())
    throw Error("no run file was given").hint("for example: lathe plan configs/tiny.toml");
  return train::read_run(ConfigFile::read(r.path, r.overrides));
}

void print_keys(bool json) {
  if (!json) {
    fmt::print("{}", train::reference_toml());
    return;
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const KeyDoc& k : train::reference())
    list.push_back({{"key", k.key},
                    {"type", k.type},
                    {"default", k.value},
                    {"about", k.about},
                    {"choices", k.choices}});
  fmt::print("{}\n", list.dump(2));
}

}  // namespace lathe::cli
