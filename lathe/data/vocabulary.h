#pragma once
// What a byte-level BPE tokenizer is, as data; and its file, a Hugging Face tokenizer.json.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/data/bpe.h"
#include "lathe/data/split.h"

namespace lathe::data {

inline constexpr std::string_view kEndOfText = "<|endoftext|>";

/// A token that no merge makes. One that is not special is found in text before anything else is.
struct AddedToken {
  i32 id;
  std::string text;
  bool special;
};

struct Vocabulary {
  std::vector<std::string> tokens;  // the bytes of each id; empty where a file leaves an id out
  std::array<i32, 256> byte_ids{};  // -1: none, for a byte that UTF-8 never uses
  std::vector<Merge> merges;        // first learnt first
  std::vector<AddedToken> added;
  i32 end_of_text = 0;

  std::string pattern = kGpt2Pattern;  // of words
  bool nfc = false;                    // text is first brought into Unicode's form NFC
  bool add_prefix_space = false;       // a space is put before text that does not start with one
  bool ignore_merges = false;          // a word that is a token is that token
};

/// Reads a tokenizer.json whose model is byte-level BPE. Throws Error naming the file and what in
/// it is damaged, or what it asks for that is not supported.
Vocabulary read_tokenizer_json(const std::string& path);

/// The text of a tokenizer.json that reads back to the same.
std::string to_tokenizer_json(const Vocabulary& v);

/// xxh3-128 of everything that decides an id, hexadecimal.
std::string hash_of(const Vocabulary& v);

}  // namespace lathe::data
