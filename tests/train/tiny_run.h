#pragma once
// A run of seconds: shards from a made-up text and the smallest models of both families.

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/rng.h"
#include "lathe/data/ingest.h"
#include "lathe/train/checkpoint.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"
#include "lathe/train/loop.h"
#include "tests/support/temporary_folder.h"

namespace lathe::train {

/// Documents of words drawn from a small vocabulary, some of them short.
inline void write_text(const std::string& folder, int documents) {
  static constexpr const char* kWords[] = {"the ", "cat ", "sat ", "on ",
                                           "a ",   "mat",  ".\n",  "why "};
  make_folders(folder);
  const Rng rng{.seed = 11};
  u64 at = 0;
  for (int d = 0; d < documents; ++d) {
    std::ofstream f(folder + "/" + std::to_string(d) + ".txt");
    const u64 words = 3 + rng.word(at++) % 150;
    for (u64 i = 0; i < words; ++i) f << kWords[rng.word(at++) % 8];
  }
}

/// Shards in a folder of their own, made once for all tests of a binary.
inline const std::string& tiny_shards() {
  static const testing_support::TemporaryFolder folder;
  static const std::string shards = [] {
    write_text(folder / "text", 60);
    data::IngestOptions o;
    o.paths = {folder / "text"};
    o.out = folder / "shards";
    o.vocab = 280;
    o.held_out = 0.1;
    data::ingest(o);
    return folder / "shards";
  }();
  return shards;
}

/// Text of a run file; `more` is appended as overrides, "train.steps=3".
inline RunConfig tiny_run(const std::string& folder, std::vector<std::string> more = {}) {
  const std::string text = R"(
[run]
seed = 1
threads = 1
[model]
family = "llama"
layers = 2
width = 32
heads = 4
kv_heads = 2
hidden = 48
context = 40
[train]
steps = 50
global_batch = 8
micro_batch = 4
recipe = "bf16"
checkpoint_every = 10
eval_every = 25
eval_sequences = 6
sample_tokens = 8
[optimizer]
lr = 1e-2
[schedule]
warmup = 5
)";
  std::vector<std::string> overrides = {"run.folder=" + folder, "data.shards=" + tiny_shards()};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return read_run(ConfigFile::parse(text, "tiny.toml", overrides));
}

inline Outcome train_quietly(const RunConfig& c, bool use_previous = false) {
  std::FILE* nowhere = std::fopen("/dev/null", "w");
  struct Close {
    std::FILE* f;
    ~Close() { std::fclose(f); }
  } close{nowhere};
  return train(c, measure(c),
               {.use_previous = use_previous, .people = nowhere, .records = nullptr});
}

/// The report of what ends such a run; nothing when it ends as it should.
inline std::string error_of(const RunConfig& c, bool use_previous = false) {
  try {
    train_quietly(c, use_previous);
  } catch (const Error& e) {
    return e.report();
  }
  return {};
}

/// The log without what depends on the clock and the machine.
inline std::vector<std::string> log_of(const std::string& folder) {
  std::vector<std::string> lines;
  std::ifstream f(folder + "/log.jsonl");
  for (std::string line; std::getline(f, line);) {
    auto j = nlohmann::ordered_json::parse(line);
    for (const char* key : {"seconds", "tokens_per_second", "mfu", "rss"}) j.erase(key);
    lines.push_back(j.dump());
  }
  return lines;
}

}  // namespace lathe::train
