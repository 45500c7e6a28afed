#pragma once
// The first bytes of a token file; tokens.h says what they mean.

#include <string_view>

#include "lathe/base/view.h"

namespace lathe::data {

inline constexpr std::string_view kTokensMagic = "LTHTOKEN";
inline constexpr u32 kTokensVersion = 1;

struct TokensHeader {
  char magic[8];
  u32 version, id_bytes;
  u64 tokens, documents;
  u32 vocab, end_of_text;
  char tokenizer_hash[32], hash[32];
  char zeros[24];
};
static_assert(sizeof(TokensHeader) == 128);

}  // namespace lathe::data
