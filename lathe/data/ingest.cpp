#include "lathe/data/ingest.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/lock.h"
#include "lathe/base/queue.h"
#include "lathe/base/view.h"
#include "lathe/data/bpe_train.h"
#include "lathe/data/in_pieces.h"
#include "lathe/data/shards_index.h"
#include "lathe/data/text.h"
#include "lathe/data/tokenizer.h"
#include "lathe/data/tokens.h"

namespace lathe::data {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kBatchBytes = std::size_t{16} << 20;  // of text in memory at once

/// What the first reading decides for the second.
struct Survey {
  std::vector<bool> held;  // by document
  i64 longest = 0;         // the longest document, and its bytes
  i64 longest_bytes = -1;
  i64 tail = 0;      // bytes at the end of the longest document that are held out
  std::string hash;  // over all documents: the second reading must meet the same
  TextReport text;
};

/// Hands out pieces by the batch, telling how far it is.
class Batches {
 public:
  Batches(const IngestOptions& o, const std::vector<TextFile>& files, const char* what)
      : reader_(files, o.bad_utf8), progress_(o.progress), what_(what) {
    for (const TextFile& f : files) total_ += f.size;
  }

  bool next(std::vector<Piece>& batch) {
    batch.clear();
    std::size_t bytes = 0;
    Piece p;
    while (bytes < kBatchBytes && reader_.next(p)) {
      bytes += p.text.size();
      batch.push_back(std::move(p));
    }
    if (progress_) progress_(what_, reader_.consumed(), total_);
    return !batch.empty();
  }
  const TextReport& report() const { return reader_.report(); }

 private:
  TextReader reader_;
  const std::function<void(const char*, i64, i64)>& progress_;
  const char* what_;
  i64 total_ = 0;
};

/// Hashes documents and chooses those that are held out.
class Surveyor {
 public:
  explicit Surveyor(double share) : share_(share) {}

  void add(const Piece& p) {
    if (p.first) {
      document_ = Hasher();
      bytes_ = 0;
    }
    document_.add(p.text);
    bytes_ += static_cast<i64>(p.text.size());
    if (p.last) end_document();
  }

  Survey finish(const TextReport& text) {
    const auto chosen = std::ranges::count(s_.held, true);
    if (chosen > 0 && chosen == std::ssize(s_.held))
      s_.held[static_cast<std::size_t>(s_.longest)] = false;
    if (std::ranges::count(s_.held, true) == 0)
      s_.tail = std::min(static_cast<i64>(share_ * static_cast<double>(text.bytes)) + (share_ > 0),
                         s_.longest_bytes / 2);
    s_.hash = all_.hex();
    s_.text = text;
    return std::move(s_);
  }

 private:
  void end_document() {
    const std::string hex = document_.hex();
    all_.add(hex);
    const auto number = std::strtoull(hex.substr(0, 16).c_str(), nullptr, 16);
    if (bytes_ > s_.longest_bytes) {
      s_.longest = std::ssize(s_.held);
      s_.longest_bytes = bytes_;
    }
    s_.held.push_back(static_cast<double>(number >> 11) * 0x1p-53 < share_);
  }

  double share_;
  Hasher document_, all_;
  i64 bytes_ = 0;
  Survey s_;
};

Survey survey(const IngestOptions& o, const std::vector<TextFile>& files, Queue& q,
              WordCounter* words) {
  Batches batches(o, files, words ? "counting words" : "reading");
  Surveyor surveyor(o.held_out);
  std::vector<Piece> batch;
  while (batches.next(batch)) {
    if (words) {
      const std::vector<std::string_view> texts = [&] {
        std::vector<std::string_view> t;
        for (const Piece& p : batch) t.emplace_back(p.text);
        return t;
      }();
      words->add(q, texts);
    }
    for (const Piece& p : batch) surveyor.add(p);
  }
  if (batches.report().documents == 0) {
    Error e("no text in {} file(s)", files.size());
    if (batches.report().binary_files > 0)
      e.hint("{} of them are binary, such as {}", batches.report().binary_files,
             batches.report().binary[0]);
    else
      e.hint("name files or folders that hold text, .jsonl, .gz or .zst");
    throw e.at(o.paths[0]);
  }
  return surveyor.finish(batches.report());
}

/// The second reading: sends each document to its part.
class Sorter {
 public:
  Sorter(const IngestOptions& o, const Survey& s, const Tokenizer& tokenizer,
         const TokensKind& kind)
      : survey_(s),
        tokenizer_(tokenizer),
        train_(o.out, "train", kind),
        held_(o.out, "held-out", kind) {}

  void add(Queue& q, const std::vector<Piece>& batch) {
    std::vector<Part> parts;
    for (const Piece& p : batch) place(p, parts);
    std::vector<std::vector<i32>> ids(parts.size());
    in_pieces(q, std::ssize(parts), [&](i64 i, int) {
      ids[static_cast<std::size_t>(i)] = tokenizer_.encode(parts[static_cast<std::size_t>(i)].text);
    });
    for (std::size_t i = 0; i < parts.size(); ++i) {
      TokensWriter& to = parts[i].held ? held_ : train_;
      if (parts[i].first) to.begin_document();
      to.add(ids[i]);
    }
    for (const Piece& p : batch) check_.add(p);
  }

  /// Ends both parts and enters them into the index.
  void finish(const TextReport& text, ShardsIndex& index) {
    if (check_.finish(text).hash != survey_.hash)
      throw Error("the text changed while it was read").hint("run the same command again");
    for (auto [part, writer] : {std::pair{&index.train, &train_}, {&index.held_out, &held_}}) {
      part->files = writer->finish();
      for (const TokensEntry& f : part->files) {
        part->tokens += f.tokens;
        part->documents += f.documents;
      }
    }
  }

 private:
  struct Part {
    std::string_view text;
    bool first, held;
  };

  void place(const Piece& p, std::vector<Part>& parts) {
    if (p.first) {
      ++document_;
      offset_ = 0;
    }
    const bool cut_here = survey_.tail > 0 && document_ == survey_.longest;
    const i64 cut = survey_.longest_bytes - survey_.tail, begin = offset_;
    offset_ += static_cast<i64>(p.text.size());
    const std::string_view text = p.text;
    if (!cut_here || offset_ <= cut) {
      parts.push_back({text, p.first, held(document_)});
    } else if (in_tail_ || begin > cut) {
      parts.push_back({text, !std::exchange(in_tail_, true), true});
    } else {
      const std::size_t at = tail_start(text, static_cast<std::size_t>(cut - begin));
      parts.push_back({text.substr(0, at), p.first, false});
      if (at < text.size())
        parts.push_back({text.substr(at), !std::exchange(in_tail_, true), true});
    }
  }

  bool held(i64 document) const {
    const auto d = static_cast<std::size_t>(document);
    return d < survey_.held.size() && survey_.held[d];
  }

  /// Behind a line if one ends soon, else where a character starts.
  static std::size_t tail_start(std::string_view text, std::size_t from) {
    const std::size_t line = safe_cut(text.substr(0, from + 4096), from);
    if (line < std::min(text.size(), from + 4096)) return line;
    while (from < text.size() && (static_cast<u8>(text[from]) & 0xC0) == 0x80) ++from;
    return from;
  }

  const Survey& survey_;
  const Tokenizer& tokenizer_;
  Surveyor check_{0};
  TokensWriter train_, held_;
  i64 document_ = -1, offset_ = 0;
  bool in_tail_ = false;
};

std::string listed_hash(const std::vector<TextFile>& files) {
  Hasher h;
  for (const TextFile& f : files) h.add(fmt::format("{}\n{}\n{}\n", f.name, f.size, f.modified));
  return h.hex();
}

std::string read_hash(const std::vector<TextFile>& files) {
  Hasher h;
  for (const TextFile& f : files) h.add(fmt::format("{}\n{}\n", f.name, hash_file(f.path)));
  return h.hex();
}

std::string settings_of(const IngestOptions& o) {
  constexpr const char* kNames[] = {"replace", "refuse", "skip"};
  return fmt::format("held-out {} bad-utf8 {} {}", o.held_out,
                     kNames[static_cast<std::size_t>(o.bad_utf8)],
                     o.tokenizer.empty() ? fmt::format("vocab {}", o.vocab)
                                         : "tokenizer " + hash_file(o.tokenizer));
}

IngestResult result_of(const ShardsIndex& x) {
  IngestResult r;
  r.documents = x.documents;
  r.text_bytes = x.text_bytes;
  r.train_tokens = x.train.tokens;
  r.held_out_tokens = x.held_out.tokens;
  r.held_out_documents = x.held_out.documents;
  r.vocab = x.kind.vocab;
  return r;
}

/// The finished folder, when it was made from the same; nothing when there is none. Throws when it
/// was made otherwise.
std::optional<ShardsIndex> finished(const IngestOptions& o, const std::vector<TextFile>& files) {
  if (o.force || !exists(o.out + "/" + kIndexName)) return {};
  ShardsIndex x = read_index(o.out);
  const char* differs = nullptr;
  if (x.settings != settings_of(o))
    differs = "with other options";
  else if (x.inputs_listed != listed_hash(files) && x.inputs_read != read_hash(files))
    differs = "from other text";
  if (differs)
    throw Error("folder holds shards that were made {}", differs)
        .at(o.out)
        .hint("choose another --out, or write over them with --force");
  for (const auto* part : {&x.train, &x.held_out})
    for (const TokensEntry& f : part->files) {
      std::error_code ignored;
      if (fs::file_size(o.out + "/" + f.file, ignored) != static_cast<std::uintmax_t>(f.bytes))
        throw Error("token file is missing or damaged")
            .at(o.out + "/" + f.file)
            .hint("make the shards again with --force");
    }
  return x;
}

/// Takes away what an earlier run left, the index first: from then on the folder is unfinished.
void clear(const std::string& out) {
  std::error_code ignored;
  fs::remove(out + "/" + kIndexName, ignored);
  sync_folder(out);
  for (const auto& entry : fs::directory_iterator(out, ignored)) {
    const std::string name = entry.path().filename();
    const bool ours = name.starts_with("train-") || name.starts_with("held-out-");
    if (ours && name.find(".tokens") != std::string::npos) fs::remove(entry.path(), ignored);
  }
}

/// Learns a tokenizer or takes the one that was named; leaves a copy in the folder.
Tokenizer make_tokenizer(const IngestOptions& o, const WordCounter* words, std::string& file) {
  if (words) {
    file = "tokenizer.json";
    Tokenizer t = Tokenizer::train(*words, o.vocab);
    t.save(o.out + "/" + file);
    return t;
  }
  file = o.tokenizer.ends_with(".bin") ? "tokenizer.bin" : "tokenizer.json";
  Tokenizer t = Tokenizer::load(o.tokenizer);
  write_atomically(o.out + "/" + file, read_file(o.tokenizer));
  return t;
}

void require_sense(const IngestOptions& o) {
  if (o.paths.empty()) throw Error("no text is named").hint("lathe data PATH… --out FOLDER");
  if (o.held_out < 0 || o.held_out > 0.5)
    throw Error("--held-out {} is not a share from 0 to 0.5", o.held_out);
  if (o.tokenizer.empty() && o.vocab < 257)
    throw Error("--vocab {} is too small: bytes and the end-of-text token alone take 257", o.vocab)
        .hint("--vocab 4096 suits small models, 32768 and more large ones");
  if (exists(o.out) && !is_folder(o.out)) throw Error("not a folder").at(o.out);
}

}  // namespace

IngestResult ingest(const IngestOptions& o) {
  const auto start = std::chrono::steady_clock::now();
  require_sense(o);
  const std::vector<TextFile> files = find_files(o.paths, o.out);
  if (files.empty())
    throw Error("no files to read").at(o.paths[0]).hint("name files or folders that hold text");
  if (const auto x = finished(o, files)) {
    IngestResult r = result_of(*x);
    r.reused = true;
    r.files = std::ssize(files);
    return r;
  }

  make_folders(o.out);
  const FolderLock lock(o.out + "/lock", "writing shards into this folder",
                        "wait for it, or choose another --out");
  Queue q(o.threads);
  std::optional<WordCounter> words;
  if (o.tokenizer.empty()) words.emplace(o.threads);
  const Survey s = survey(o, files, q, words ? &*words : nullptr);

  clear(o.out);
  ShardsIndex index;
  const Tokenizer tokenizer = make_tokenizer(o, words ? &*words : nullptr, index.tokenizer_file);
  words.reset();
  index.kind = {tokenizer.size(), tokenizer.end_of_text(), tokenizer.hash()};
  Sorter sorter(o, s, tokenizer, index.kind);
  Batches batches(o, files, "writing tokens");
  std::vector<Piece> batch;
  while (batches.next(batch)) sorter.add(q, batch);
  sorter.finish(batches.report(), index);

  index.documents = s.text.documents;
  index.text_bytes = s.text.bytes;
  index.settings = settings_of(o);
  index.inputs_listed = listed_hash(files);
  index.inputs_read = read_hash(files);
  write_index(o.out, index);

  IngestResult r = result_of(index);
  r.files = std::ssize(files);
  r.text = s.text;
  r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return r;
}

}  // namespace lathe::data
