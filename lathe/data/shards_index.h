#pragma once
// index.json: what is in a folder of token files. It is written last, so a folder that has one is
// whole.

#include <string>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/data/tokens.h"

namespace lathe::data {

struct ShardsIndex {
  struct Part {
    i64 tokens = 0, documents = 0;
    std::vector<TokensEntry> files;
  };
  Part train, held_out;
  i64 documents = 0, text_bytes = 0;
  TokensKind kind;
  std::string tokenizer_file;  // name within the folder

  /// What it was made from and how: the same again need not be made again.
  std::string settings;       // options that decide the result, as text
  std::string inputs_listed;  // hash over names, sizes and times of the input files
  std::string inputs_read;    // hash over names and contents
};

inline constexpr const char* kIndexName = "index.json";

/// Throws Error when the folder has none, or one that is damaged or of another version.
ShardsIndex read_index(const std::string& folder);
void write_index(const std::string& folder, const ShardsIndex& index);

}  // namespace lathe::data
