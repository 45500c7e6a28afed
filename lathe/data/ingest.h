#pragma once
// From text to a folder that a model can be trained on: tokenizer, token files, index.

#include <functional>
#include <string>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/data/text.h"

namespace lathe::data {

struct IngestOptions {
  std::vector<std::string> paths;
  std::string out;
  i64 vocab = 4096;
  /// Share of the documents that is kept for evaluation, chosen by a hash of their text, so that
  /// the choice does not move when documents are added and copies stay together. When it picks
  /// none, the end of the longest document is kept: that share of all text, at most half of it.
  double held_out = 0.01;
  BadUtf8 bad_utf8 = BadUtf8::replace;
  std::string tokenizer;  // an existing one to use; empty: learn one from the text
  bool force = false;     // write over finished shards that were made otherwise
  int threads = 1;        // the result does not depend on them
  /// Called now and then with what is going on and bytes of files read of how many.
  std::function<void(const char* what, i64 done, i64 of)> progress;
};

struct IngestResult {
  bool reused = false;  // the folder was finished before: `text` and `seconds` are empty
  i64 documents = 0, text_bytes = 0;
  i64 train_tokens = 0, held_out_tokens = 0, held_out_documents = 0;
  i64 vocab = 0;
  i64 files = 0;
  TextReport text;
  double seconds = 0;
};

/// Reads the text twice: to count words and choose what is held out, then to write tokens. A run
/// that is killed leaves a folder that does not count as finished. Throws Error when there is no
/// text, when the folder holds shards made otherwise (unless forced), and for whatever reading and
/// writing throws.
IngestResult ingest(const IngestOptions& options);

}  // namespace lathe::data
