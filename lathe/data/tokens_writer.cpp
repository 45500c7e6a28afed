#include <bit>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/data/tokens.h"
#include "lathe/data/tokens_header.h"

namespace lathe::data {

static_assert(std::endian::native == std::endian::little);

TokensWriter::TokensWriter(std::string folder, std::string part, TokensKind kind, i64 file_tokens)
    : folder_(std::move(folder)),
      part_(std::move(part)),
      kind_(std::move(kind)),
      file_tokens_(file_tokens) {}

void TokensWriter::begin_document() {
  if (in_file_ == file_tokens_) flush();
  documents_.push_back(static_cast<u64>(in_file_));
  add_one(kind_.end_of_text);
}

void TokensWriter::add(std::span<const i32> ids) {
  for (const i32 id : ids) add_one(id);
}

void TokensWriter::add_one(i32 id) {
  if (in_file_ == file_tokens_) flush();
  CHECK(id >= 0 && id < kind_.vocab, "id {} of a vocabulary of {}", id, kind_.vocab);
  ids_.append(reinterpret_cast<const char*>(&id), static_cast<std::size_t>(kind_.id_bytes()));
  ++in_file_;
  ++tokens_;
}

void TokensWriter::flush() {
  std::string body = std::exchange(ids_, {});
  body.resize((body.size() + 7) / 8 * 8);
  body.append(reinterpret_cast<const char*>(documents_.data()), documents_.size() * sizeof(u64));
  TokensEntry entry{fmt::format("{}-{:05}.tokens", part_, files_.size()), in_file_,
                    static_cast<i64>(documents_.size()),
                    static_cast<i64>(sizeof(TokensHeader) + body.size()), hash_hex(body)};
  TokensHeader h{};
  std::memcpy(h.magic, kTokensMagic.data(), sizeof h.magic);
  h.version = kTokensVersion;
  h.id_bytes = static_cast<u32>(kind_.id_bytes());
  h.tokens = static_cast<u64>(in_file_);
  h.documents = documents_.size();
  h.vocab = static_cast<u32>(kind_.vocab);
  h.end_of_text = static_cast<u32>(kind_.end_of_text);
  std::memcpy(h.tokenizer_hash, kind_.tokenizer_hash.data(), sizeof h.tokenizer_hash);
  std::memcpy(h.hash, entry.hash.data(), sizeof h.hash);
  body.insert(0, reinterpret_cast<const char*>(&h), sizeof h);
  write_atomically(folder_ + "/" + entry.file, body);
  files_.push_back(std::move(entry));
  documents_.clear();
  in_file_ = 0;
}

std::vector<TokensEntry> TokensWriter::finish() {
  if (tokens_ == 0) return {};
  add_one(kind_.end_of_text);
  flush();
  return std::move(files_);
}

}  // namespace lathe::data
