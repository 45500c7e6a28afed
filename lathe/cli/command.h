#pragma once
// How a command of the program is declared. One file a command:
//
//   struct SampleOptions { std::string run; i64 tokens = 64; bool json = false; };
//   void declare(CLI::App& a, SampleOptions& o) {
//     a.add_option("run", o.run, "run folder")->required();
//     a.add_option("--tokens", o.tokens, "how many to write")->capture_default_str();
//     a.add_flag("--json", o.json, "print one JSON object");
//   }
//   int run(const SampleOptions& o) { …; return 0; }
//
//   void add_sample(Commands& c) {
//     c.add<SampleOptions>("sample", "write text with a trained model",
//                          "lathe sample runs/tiny --prompt \"Once\"\n", declare, run);
//   }
//
// The file includes <CLI/CLI.hpp> itself. Results go to stdout, all else to stderr. run() throws
// Error for what the user can mend; Commands::run reports it and exits with 2.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/train/config.h"

namespace CLI {
class App;
}

namespace lathe::cli {

class Commands {
 public:
  Commands();
  ~Commands();
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  /// Adds a word that commands stand behind: after group("precision", …) the name of a command may
  /// be "precision compare".
  void group(const std::string& name, const std::string& about);

  /// Adds `lathe <name>`. `about`: one line. `examples`: whole command lines, one a line, shown at
  /// the end of --help; lines that are no command may follow an empty line.
  template <class Options>
  void add(const std::string& name, const std::string& about, const std::string& examples,
           void (*declare)(CLI::App&, Options&), int (*command)(const Options&)) {
    auto options = std::make_unique<Holder<Options>>();
    Options& o = options->value;
    holders_.push_back(std::move(options));
    declare(add_app(name, about, examples, [command, &o] { return command(o); }), o);
  }

  /// Parses what stands behind the program's name, runs the command, reports any error to stderr.
  /// Returns the exit code: 0; 2 after an error; else what the command returned.
  int run(std::span<const std::string> arguments);

 private:
  struct AnyHolder {
    virtual ~AnyHolder() = default;
  };
  template <class T>
  struct Holder : AnyHolder {
    T value;
  };
  struct Impl;

  CLI::App& add_app(const std::string& name, const std::string& about, const std::string& examples,
                    std::function<int()> run);

  std::vector<std::unique_ptr<AnyHolder>> holders_;
  std::unique_ptr<Impl> impl_;
};

/// What `train` and `plan` take: a run file and overrides.
struct RunFileOptions {
  std::string path;
  std::vector<std::string> overrides;  // "section.key=value"
  bool keys = false;                   // print every key instead
  bool json = false;
};

/// What a command that computes takes.
struct MachineOptions {
  int threads = 0;
  std::string kernels = "auto";
  /// As asked for, or one for each core that this process may use.
  int workers() const;
};

/// Declares --threads and --kernels.
void declare_machine(CLI::App& a, MachineOptions& o);

/// Declares RUN.toml, --set, --keys and --json.
void declare_run_file(CLI::App& a, RunFileOptions& o);

/// Reads, resolves and checks the run file; throws Error.
train::RunConfig read_run_file(const RunFileOptions& o);

/// Writes every key with its default and meaning to stdout: what --keys asks for.
void print_keys(bool json);

// One function a command, each in its own file.
void add_data(Commands& c);
void add_train(Commands& c);
void add_plan(Commands& c);
void add_sample(Commands& c);
void add_eval(Commands& c);
void add_report(Commands& c);
void add_number(Commands& c);
void add_precision(Commands& c);
void add_doctor(Commands& c);
void add_version(Commands& c);

}  // namespace lathe::cli
