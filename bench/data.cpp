// How fast text becomes tokens and tokens become batches. One thread, real text:
//
//   bench_data TEXT... [--peer PYTHON]
//
// prints MB/s of learning and encoding, the time to fill a batch, and, where PYTHON can import the
// `tokenizers` package, the ratio to it with the same vocabulary, in turns within this run.

#include <fmt/format.h>
#include <stdio.h>
#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/timing.h"
#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/median.h"
#include "lathe/base/view.h"
#include "lathe/data/ingest.h"
#include "lathe/data/loader.h"
#include "lathe/data/text.h"
#include "lathe/data/tokenizer.h"

namespace {

using namespace lathe;
using bench::seconds;

constexpr int kRounds = 7;

std::vector<std::string> read_pieces(const std::vector<std::string>& paths) {
  data::TextReader reader(data::find_files(paths, ""), data::BadUtf8::replace);
  std::vector<std::string> pieces;
  data::Piece p;
  while (reader.next(p)) pieces.push_back(std::move(p.text));
  return pieces;
}

/// Seconds that the `tokenizers` package takes for the text, itself measured in Python, on one
/// thread; 0 where it cannot be run.
double peer_seconds(const std::string& python, const std::string& folder) {
  const std::string command = fmt::format(
      "TOKENIZERS_PARALLELISM=false '{}' bench/peers/tokenizers_encode.py '{}/tokenizer.json' "
      "'{}/text'",
      python, folder, folder);
  std::FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return 0;
  double s = 0;
  if (std::fscanf(pipe, "%lf", &s) != 1) s = 0;
  pclose(pipe);
  return s;
}

void bench_encoding(const std::vector<std::string>& pieces, const std::string& folder,
                    const std::string& python) {
  double bytes = 0;
  std::string all;
  for (const std::string& p : pieces) {
    bytes += static_cast<double>(p.size());
    all += p;
  }
  const std::vector<std::string_view> texts(pieces.begin(), pieces.end());
  std::vector<double> learn, encode, ratio;
  const data::Tokenizer t = data::Tokenizer::train(texts, 4096, 1);
  t.save(folder + "/tokenizer.json");
  write_atomically(folder + "/text", all);
  std::size_t tokens = 0;
  for (int i = 0; i < kRounds; ++i) {
    learn.push_back(seconds([&] { data::Tokenizer::train(texts, 4096, 1); }));
    tokens = 0;
    encode.push_back(seconds([&] {
      for (const std::string_view text : texts) tokens += t.encode(text).size();
    }));
    const double peer = python.empty() ? 0 : peer_seconds(python, folder);
    if (peer > 0) ratio.push_back(peer / encode.back());
  }
  fmt::print("text                     {:10.1f} MB, {:.3f} bytes per token\n", bytes / 1e6,
             bytes / static_cast<double>(tokens));
  fmt::print("learn 4096 tokens        {:10.1f} MB/s\n", bytes / 1e6 / median(learn));
  fmt::print("encode                   {:10.1f} MB/s\n", bytes / 1e6 / median(encode));
  if (!ratio.empty())
    fmt::print("  times as fast as tokenizers {:.1f} (median of {} pairs)\n", median(ratio),
               ratio.size());
}

void bench_loader(const std::vector<std::string>& paths, const std::string& folder) {
  data::IngestOptions o;
  o.paths = paths;
  o.out = folder + "/shards";
  data::ingest(o);
  constexpr i64 kContext = 1024, kRows = 8;
  std::vector<double> open, fill;
  for (int i = 0; i < kRounds; ++i)
    open.push_back(
        seconds([&] { data::Loader(o.out, data::Loader::Part::train, kContext, 4096, 1); }));
  const data::Loader loader(o.out, data::Loader::Part::train, kContext, 4096, 1);
  std::vector<i32> ids(kRows * kContext), targets(ids.size()), starts(ids.size());
  for (i64 i = 0; i < 200; ++i)
    fill.push_back(seconds([&] {
      loader.fill(i * kRows, kRows, kContext, ids.data(), targets.data(), starts.data());
    }));
  fmt::print("open shards again        {:10.3f} ms\n", 1e3 * median(open));
  fmt::print("fill 8 x 1024 tokens     {:10.3f} ms\n", 1e3 * median(fill));
}

int run(const std::vector<std::string>& paths, const std::string& python) {
  std::string folder = (std::filesystem::temp_directory_path() / "lathe-bench-XXXXXX").string();
  if (!mkdtemp(folder.data())) throw Error("cannot make a folder for the benchmark").at(folder);
  bench_encoding(read_pieces(paths), folder, python);
  bench_loader(paths, folder);
  std::filesystem::remove_all(folder);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> paths;
  std::string python;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--peer" && i + 1 < argc)
      python = argv[++i];
    else
      paths.emplace_back(argv[i]);
  }
  if (paths.empty()) {
    fmt::print(stderr, "usage: bench_data TEXT... [--peer PYTHON]\n");
    return 2;
  }
  try {
    return run(paths, python);
  } catch (const lathe::Error& e) {
    fmt::print(stderr, "{}", e.report());
    return 2;
  }
}
