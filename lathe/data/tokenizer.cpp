#include "lathe/data/tokenizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/data/bpe.h"
#include "lathe/data/bpe_train.h"
#include "lathe/data/scored.h"
#include "lathe/data/utf8.h"
#include "lathe/data/vocabulary.h"

namespace lathe::data {

namespace {

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<u8>(c) < 0x80; });
}

/// Normal form C of well-formed text.
std::string nfc(std::string_view text) {
  utf8proc_uint8_t* composed = nullptr;
  const auto n = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                              static_cast<utf8proc_ssize_t>(text.size()), &composed,
                              static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  if (n < 0) throw Error("text cannot be brought into NFC: {}", utf8proc_errmsg(n));
  std::string out(reinterpret_cast<const char*>(composed), static_cast<std::size_t>(n));
  std::free(composed);  // NOLINT: utf8proc allocates with malloc
  return out;
}

/// A pattern that finds the longest of the added tokens that are found in text; empty: none are.
std::string added_pattern(const Vocabulary& v) {
  std::vector<std::string> texts;
  for (const AddedToken& a : v.added)
    if (!a.special) texts.push_back(a.text);
  std::ranges::sort(texts, [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  });
  std::string pattern;
  for (const std::string& t : texts) {
    if (!pattern.empty()) pattern += '|';
    for (const char c : t) {
      const bool plain = static_cast<u8>(c) >= 0x80 || std::isalnum(static_cast<u8>(c));
      pattern += plain ? std::string(1, c) : fmt::format("\\x{{{:x}}}", static_cast<u8>(c));
    }
  }
  return pattern;
}

/// A byte-level tokenizer: what is only read, and a pool of what each thread needs for itself.
class ByteLevel {
 public:
  explicit ByteLevel(Vocabulary v)
      : vocabulary(std::move(v)),
        splitter_(vocabulary.pattern),
        bpe_(vocabulary.byte_ids, vocabulary.merges) {
    const std::string added = added_pattern(vocabulary);
    if (!added.empty()) added_.emplace(added);
    for (const AddedToken& a : vocabulary.added) added_ids_.emplace(a.text, a.id);
    if (!vocabulary.ignore_merges) return;
    for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id)
      whole_words_.emplace(vocabulary.tokens[id], static_cast<i32>(id));
    for (const AddedToken& a : vocabulary.added) whole_words_.erase(a.text);
  }

  const Vocabulary vocabulary;

  void append(std::string_view text, std::vector<i32>& out) const {
    std::unique_ptr<Worker> w = borrow();
    for_runs(
        text, [&](std::string_view run) { append_run(*w, run, out); },
        [&](std::string_view bytes) { append_bytes(*w, bytes, out); });
    const std::scoped_lock lock(mutex_);
    idle_.push_back(std::move(w));
  }

 private:
  struct Worker {
    Splitter::Cursor words;
    std::optional<Splitter::Cursor> added;
    WordCache cache;
  };

  std::unique_ptr<Worker> borrow() const {
    {
      const std::scoped_lock lock(mutex_);
      if (!idle_.empty()) {
        auto w = std::move(idle_.back());
        idle_.pop_back();
        return w;
      }
    }
    auto w = std::make_unique<Worker>(Splitter::Cursor(splitter_), std::nullopt, WordCache());
    if (added_) w->added.emplace(*added_);
    return w;
  }

  /// Bytes that are no text. U+FFFD stands for them where the vocabulary lacks one of them.
  void append_bytes(Worker& w, std::string_view bytes, std::vector<i32>& out) const {
    const bool known = std::ranges::all_of(
        bytes, [&](char c) { return vocabulary.byte_ids[static_cast<u8>(c)] >= 0; });
    append_word(w, known ? bytes : "\xEF\xBF\xBD", out);
  }

  void append_run(Worker& w, std::string_view run, std::vector<i32>& out) const {
    std::string composed;
    if (vocabulary.nfc && !is_ascii(run)) run = composed = nfc(run);
    if (!w.added) return append_words(w, run, out);
    for (std::size_t at = 0; at < run.size();) {
      const auto found = w.added->find(run, at);
      if (found.begin > at) append_words(w, run.substr(at, found.begin - at), out);
      if (found.begin < run.size())
        out.push_back(added_ids_.at(std::string(run.substr(found.begin, found.end - found.begin))));
      at = found.end;
    }
  }

  void append_words(Worker& w, std::string_view text, std::vector<i32>& out) const {
    std::string spaced;
    if (vocabulary.add_prefix_space && text[0] != ' ') text = spaced = " " + std::string(text);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = w.words.word_end(text, at);
      append_word(w, text.substr(at, end - at), out);
      at = end;
    }
  }

  void append_word(Worker& w, std::string_view word, std::vector<i32>& out) const {
    if (vocabulary.ignore_merges) {
      const auto found = whole_words_.find(std::string(word));
      if (found != whole_words_.end()) return out.push_back(found->second);
    }
    w.cache.append(bpe_, word, out);
  }

  Splitter splitter_;
  std::optional<Splitter> added_;
  std::unordered_map<std::string, i32> added_ids_, whole_words_;
  Bpe bpe_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Worker>> idle_;
};

Vocabulary learnt(const WordCounter& words, i64 size) {
  if (size < 257)
    throw Error("a vocabulary of {} is too small: bytes and {} alone take 257", size, kEndOfText)
        .hint("ask for 257 or more; 4096 suits small models, 32768 and more large ones");
  Vocabulary v;
  for (std::size_t b = 0; b < 256; ++b) {
    v.byte_ids[b] = static_cast<i32>(b);
    v.tokens.emplace_back(1, static_cast<char>(b));
  }
  v.merges = learn_merges(words.words(), size - 257);
  for (const Merge& m : v.merges)
    v.tokens.push_back(v.tokens[static_cast<std::size_t>(m.left)] +
                       v.tokens[static_cast<std::size_t>(m.right)]);
  v.end_of_text = static_cast<i32>(v.tokens.size());
  v.tokens.emplace_back(kEndOfText);
  v.added.push_back({v.end_of_text, std::string(kEndOfText), true});
  return v;
}

}  // namespace

/// One of the two kinds.
struct Tokenizer::Impl {
  std::unique_ptr<ByteLevel> byte_level;
  std::unique_ptr<ScoredVocabulary> scored;

  const std::vector<std::string>& tokens() const {
    return scored ? scored->tokens : byte_level->vocabulary.tokens;
  }
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::train(const WordCounter& words, i64 vocab) {
  auto impl = std::make_unique<Impl>();
  impl->byte_level = std::make_unique<ByteLevel>(learnt(words, vocab));
  return Tokenizer(std::move(impl));
}

Tokenizer Tokenizer::train(const std::vector<std::string_view>& texts, i64 vocab, int threads) {
  Queue q(threads);
  WordCounter words(threads);
  words.add(q, texts);
  return train(words, vocab);
}

Tokenizer Tokenizer::load(const std::string& path) {
  auto impl = std::make_unique<Impl>();
  if (path.ends_with(".bin")) {
    impl->scored = std::make_unique<ScoredVocabulary>(read_scored(path));
  } else {
    try {
      impl->byte_level = std::make_unique<ByteLevel>(read_tokenizer_json(path));
    } catch (Error& e) {
      if (e.where().empty()) e.at(path);
      throw;
    }
  }
  return Tokenizer(std::move(impl));
}

void Tokenizer::save(const std::string& path) const {
  if (impl_->scored)
    throw Error("a llama2.c tokenizer cannot be written as a tokenizer.json")
        .at(path)
        .hint("copy the .bin file instead");
  write_atomically(path, to_tokenizer_json(impl_->byte_level->vocabulary));
}

std::vector<i32> Tokenizer::encode(std::string_view text) const {
  std::vector<i32> ids;
  ids.reserve(text.size() / 3 + 8);
  if (impl_->scored)
    append_scored(*impl_->scored, text, ids);
  else
    impl_->byte_level->append(text, ids);
  return ids;
}

std::string Tokenizer::decode(const std::vector<i32>& ids) const {
  std::string text;
  // SentencePiece's dummy space stands in front of a text, which may follow upon a begin token
  bool at_start = impl_->scored != nullptr;
  for (const i32 id : ids) {
    std::string_view piece = bytes(id);
    if (at_start && piece.starts_with(' ')) piece.remove_prefix(1);
    at_start = impl_->scored && id == ScoredVocabulary::kBegin;
    text += piece;
  }
  return text;
}

std::string_view Tokenizer::bytes(i32 id) const {
  if (id < 0 || id >= size()) return {};
  return impl_->tokens()[static_cast<std::size_t>(id)];
}

i64 Tokenizer::size() const { return static_cast<i64>(impl_->tokens().size()); }

i32 Tokenizer::end_of_text() const {
  return impl_->scored ? ScoredVocabulary::kBegin : impl_->byte_level->vocabulary.end_of_text;
}

std::string Tokenizer::hash() const {
  return impl_->scored ? hash_of(*impl_->scored) : hash_of(impl_->byte_level->vocabulary);
}

}  // namespace lathe::data
