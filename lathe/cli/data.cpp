#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lathe/base/cpu.h"
#include "lathe/base/log.h"
#include "lathe/base/view.h"
#include "lathe/cli/command.h"
#include "lathe/data/ingest.h"
#include "lathe/data/text.h"

namespace lathe::cli {

namespace {

struct DataOptions {
  data::IngestOptions ingest;
  std::string bad_utf8 = "replace";
  bool json = false;
};

void declare(CLI::App& a, DataOptions& o) {
  a.add_option(
       "path", o.ingest.paths,
       "text files and folders: plain text, .jsonl with a key \"text\", also as .gz or .zst")
      ->required()
      ->type_name("PATH");
  a.add_option("--out", o.ingest.out, "folder to write: tokenizer, training and held-out tokens")
      ->required()
      ->type_name("FOLDER");
  a.add_option("--vocab", o.ingest.vocab, "tokens that the tokenizer learns, 257 or more")
      ->capture_default_str();
  a.add_option("--held-out", o.ingest.held_out, "share of the documents kept for evaluation")
      ->capture_default_str();
  a.add_option("--bad-utf8", o.bad_utf8,
               "what to do about bytes that are not UTF-8: put U+FFFD there, stop, or leave the "
               "document out")
      ->check(CLI::IsMember({"replace", "refuse", "skip"}))
      ->capture_default_str();
  a.add_option("--tokenizer", o.ingest.tokenizer,
               "use this tokenizer.json (or llama2.c .bin) instead of learning one")
      ->type_name("FILE");
  a.add_flag("--force", o.ingest.force, "write over finished shards that were made otherwise");
  a.add_option("--threads", o.ingest.threads, "threads; 0: every core this process may use")
      ->default_val(0)
      ->check(CLI::Range(0, 1024));
  a.add_flag("--json", o.json, "print JSON, for programs");
}

data::BadUtf8 bad_utf8_of(const std::string& name) {
  return name == "refuse" ? data::BadUtf8::refuse
         : name == "skip" ? data::BadUtf8::skip
                          : data::BadUtf8::replace;
}

void show_progress(const char* what, i64 done, i64 of) {
  fmt::print(stderr, "\r{:<15} {:>7.1f} of {:.1f} MB\x1b[K", what, static_cast<double>(done) / 1e6,
             static_cast<double>(of) / 1e6);
  std::fflush(stderr);
}

void warn_about(const data::TextReport& t) {
  const auto list = [](const std::vector<std::string>& names, i64 all) {
    std::string s = fmt::format("{}", fmt::join(names, ", "));
    return all > std::ssize(names) ? s + ", …" : s;
  };
  if (t.binary_files > 0)
    warn("left out {} binary file(s): {}", t.binary_files, list(t.binary, t.binary_files));
  if (t.bad_sequences > 0)
    warn("{} sequence(s) are not UTF-8: {}", t.bad_sequences, list(t.bad_places, t.bad_sequences));
  if (t.skipped_documents > 0) warn("left out {} document(s) for that", t.skipped_documents);
}

void print_json(const DataOptions& o, const data::IngestResult& r) {
  const nlohmann::ordered_json j{{"folder", o.ingest.out},
                                 {"reused", r.reused},
                                 {"files", r.files},
                                 {"documents", r.documents},
                                 {"text_bytes", r.text_bytes},
                                 {"vocab", r.vocab},
                                 {"train_tokens", r.train_tokens},
                                 {"held_out_tokens", r.held_out_tokens},
                                 {"held_out_documents", r.held_out_documents},
                                 {"binary_files", r.text.binary_files},
                                 {"bad_utf8_sequences", r.text.bad_sequences},
                                 {"skipped_documents", r.text.skipped_documents},
                                 {"seconds", r.seconds}};
  fmt::print("{}\n", j.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void print_summary(const DataOptions& o, const data::IngestResult& r) {
  const auto tokens = static_cast<double>(r.train_tokens + r.held_out_tokens);
  const auto bytes = static_cast<double>(r.text_bytes);
  if (r.reused) fmt::print("nothing to do: {} was made from this text before\n", o.ingest.out);
  fmt::print("documents  {} ({} held out)\n", r.documents, r.held_out_documents);
  fmt::print("text       {:.1f} MB\n", bytes / 1e6);
  fmt::print("vocabulary {}\n", r.vocab);
  fmt::print("tokens     {} to train on, {} held out; {:.2f} bytes each\n", r.train_tokens,
             r.held_out_tokens, bytes / tokens);
  if (!r.reused)
    fmt::print("time       {:.1f} s, {:.1f} MB/s\n", r.seconds, bytes / 1e6 / r.seconds);
  fmt::print("folder     {}\n", o.ingest.out);
  fmt::print("next:      set data.shards = \"{}\" in a run file, then: lathe train run.toml\n",
             o.ingest.out);
}

int run(const DataOptions& o) {
  data::IngestOptions ingest = o.ingest;
  ingest.bad_utf8 = bad_utf8_of(o.bad_utf8);
  if (ingest.threads == 0) ingest.threads = usable_cores();
  const bool live = isatty(STDERR_FILENO) != 0;
  if (live) ingest.progress = show_progress;
  const data::IngestResult r = data::ingest(ingest);
  if (live && !r.reused) fmt::print(stderr, "\r\x1b[K");
  warn_about(r.text);
  if (o.json)
    print_json(o, r);
  else
    print_summary(o, r);
  return 0;
}

}  // namespace

void add_data(Commands& c) {
  c.add<DataOptions>("data", "make a tokenizer and token files out of text",
                     "lathe data book.txt --out data/book\n"
                     "lathe data texts more.jsonl.zst --vocab 8192 --out data/mine\n"
                     "lathe data texts --tokenizer data/mine/tokenizer.json --out data/other\n",
                     declare, run);
}

}  // namespace lathe::cli
