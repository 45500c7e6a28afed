#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
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

namespace {

constexpr i64 kHeader = sizeof(TokensHeader);
constexpr i64 kChunk = i64{1} << 18;  // ids

i64 nanoseconds(const timespec& t) { return t.tv_sec * 1'000'000'000 + t.tv_nsec; }
i64 ids_end(i64 tokens, i64 id_bytes) { return kHeader + (tokens * id_bytes + 7) / 8 * 8; }

constexpr const char* kMend = "make the shards again: lathe data PATH… --out FOLDER --force";

}  // namespace

TokensFile::TokensFile(std::string path) : path_(std::move(path)) {
  descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0)
    throw Error("cannot open token file: {}", std::strerror(errno)).at(path_).hint(kMend);
  struct stat s{};
  fstat(descriptor_, &s);
  size_ = s.st_size;
  modified_ = nanoseconds(s.st_mtim);
  TokensHeader h{};
  if (size_ >= kHeader) read_bytes(0, kHeader, &h);
  if (std::string_view(h.magic, sizeof h.magic) != kTokensMagic || h.version != kTokensVersion ||
      (h.id_bytes != 2 && h.id_bytes != 4) || h.tokens >> 40 != 0 || h.documents > h.tokens) {
    close(descriptor_);
    throw Error("not a token file of this version").at(path_).hint(kMend);
  }
  id_bytes_ = h.id_bytes;
  tokens_ = static_cast<i64>(h.tokens);
  documents_ = static_cast<i64>(h.documents);
  kind_ = {h.vocab, static_cast<i32>(h.end_of_text), {h.tokenizer_hash, sizeof h.tokenizer_hash}};
  hash_.assign(h.hash, sizeof h.hash);
  const i64 expected = ids_end(tokens_, id_bytes_) + documents_ * 8;
  if (size_ != expected) {
    close(descriptor_);
    throw Error("token file has {} bytes where its header promises {}: it was cut short or damaged",
                size_, expected)
        .at(path_)
        .hint(kMend);
  }
}

TokensFile::~TokensFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

TokensFile::TokensFile(TokensFile&& other) noexcept
    : path_(std::move(other.path_)),
      hash_(std::move(other.hash_)),
      kind_(std::move(other.kind_)),
      id_bytes_(other.id_bytes_),
      tokens_(other.tokens_),
      documents_(other.documents_),
      size_(other.size_),
      modified_(other.modified_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

void TokensFile::read_bytes(i64 offset, i64 size, void* out) const {
  auto* to = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t n = pread(descriptor_, to, static_cast<std::size_t>(size), offset);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error("cannot read at byte {}: {}", offset, std::strerror(errno)).at(path_);
    if (n == 0)
      throw Error("token file was cut short while in use: it ends at byte {}", offset)
          .at(path_)
          .hint(kMend);
    offset += n;
    size -= n;
    to += n;
  }
}

void TokensFile::require_unchanged() const {
  struct stat s{};
  fstat(descriptor_, &s);
  if (s.st_nlink == 0)
    throw Error("token file was removed or replaced while in use").at(path_).hint(kMend);
  if (s.st_size != size_)
    throw Error("token file was {} bytes and has become {} while in use", size_, s.st_size)
        .at(path_)
        .hint(kMend);
  if (nanoseconds(s.st_mtim) != modified_)
    throw Error("token file was written to while in use").at(path_).hint(kMend);
}

void TokensFile::read(i64 begin, i64 count, i32* out) const {
  CHECK(begin >= 0 && count >= 0 && begin + count <= tokens_, "ids {} + {} of {}", begin, count,
        tokens_);
  require_unchanged();
  if (id_bytes_ == 4) return read_bytes(kHeader + begin * 4, count * 4, out);
  // the narrow ids go into the upper half of their own row and are then spread out in place
  auto* narrow = reinterpret_cast<char*>(out) + 2 * count;
  read_bytes(kHeader + begin * 2, count * 2, narrow);
  for (i64 i = 0; i < count; ++i) {
    u16 id = 0;
    std::memcpy(&id, narrow + 2 * i, 2);
    out[i] = id;
  }
}

std::vector<u64> TokensFile::document_starts() const {
  std::vector<u64> starts(static_cast<std::size_t>(documents_));
  read_bytes(ids_end(tokens_, id_bytes_), documents_ * 8, starts.data());
  return starts;
}

i64 TokensFile::largest_id() const {
  Hasher hasher;
  std::vector<char> bytes(static_cast<std::size_t>(kChunk * id_bytes_));
  for (i64 at = kHeader; at < size_;) {
    const i64 n = std::min<i64>(static_cast<i64>(bytes.size()), size_ - at);
    read_bytes(at, n, bytes.data());
    hasher.add(bytes.data(), static_cast<std::size_t>(n));
    at += n;
  }
  if (hasher.hex() != hash_)
    throw Error("token file is damaged: its contents do not match their hash")
        .at(path_)
        .hint(kMend);
  const std::vector<u64> starts = document_starts();
  std::vector<i32> ids(kChunk);
  std::size_t next = 0;
  u32 largest = 0;
  for (i64 at = 0; at < tokens_; at += kChunk) {
    const i64 n = std::min(kChunk, tokens_ - at);
    read(at, n, ids.data());
    for (i64 i = 0; i < n; ++i) largest = std::max(largest, static_cast<u32>(ids[i]));
    for (; next < starts.size() && starts[next] < static_cast<u64>(at + n); ++next) {
      const bool ascending = next == 0 || starts[next] > starts[next - 1];
      if (!ascending || ids[starts[next] - static_cast<u64>(at)] != kind_.end_of_text)
        refuse_document(next);
    }
  }
  if (next != starts.size()) refuse_document(next);
  return largest;
}

void TokensFile::refuse_document(std::size_t number) const {
  throw Error("token file is damaged: document {} does not start where it is said to", number)
      .at(path_)
      .hint(kMend);
}

void TokensFile::check(i64 vocab) const {
  const std::string stamp_path = path_ + ".checked";
  const std::string key = fmt::format("lathe-checked 1 {} {} {} ", size_, modified_, hash_);
  i64 largest = -1;
  if (exists(stamp_path) && !is_folder(stamp_path)) {
    const std::string stamp = read_file(stamp_path);
    if (stamp.starts_with(key)) largest = std::atoll(stamp.c_str() + key.size());
  }
  if (largest < 0) {
    largest = largest_id();
    try {
      write_atomically(stamp_path, fmt::format("{}{}\n", key, largest));
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch)
      // a folder that cannot be written to is checked again next time
    }
  }
  if (largest >= vocab) refuse_id(vocab);
}

void TokensFile::refuse_id(i64 vocab) const {
  std::vector<i32> ids(kChunk);
  for (i64 at = 0; at < tokens_; at += kChunk) {
    const i64 n = std::min(kChunk, tokens_ - at);
    read(at, n, ids.data());
    for (i64 i = 0; i < n; ++i)
      if (static_cast<u32>(ids[i]) >= vocab)
        throw Error("token {} is id {}, out of range for a vocabulary of {}", at + i,
                    static_cast<u32>(ids[i]), vocab)
            .at(path_)
            .hint("set model.vocab to {} or more, or make the shards again", kind_.vocab);
  }
  throw Error("ids are out of range for a vocabulary of {}", vocab).at(path_).hint(kMend);
}

}  // namespace lathe::data
