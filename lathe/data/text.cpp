#include "lathe/data/text.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/data/byte_source.h"
#include "lathe/data/utf8.h"

namespace lathe::data {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kChunk = std::size_t{1} << 18;  // read at once; and about a piece's length
constexpr std::size_t kMost = 4 * kChunk;             // longest piece
constexpr std::size_t kSniff = 8192;                  // where a NUL tells a binary file

bool is_space(char c) { return c == ' ' || (c >= 9 && c <= 13); }
bool is_plain(char c) { return static_cast<u8>(c) < 0x80 && !is_space(c); }

/// The last place at or before `at` where a character starts.
std::size_t character_start(std::string_view text, std::size_t at) {
  while (at > 0 && at < text.size() && (static_cast<u8>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

TextFile describe(const std::string& path, const std::string& name) {
  struct stat s{};
  if (stat(path.c_str(), &s) != 0) throw Error("cannot read file").at(path);
  return {path, name, s.st_size, s.st_mtim.tv_sec * 1'000'000'000 + s.st_mtim.tv_nsec};
}

void find_below(const std::string& folder, const fs::path& except, std::vector<TextFile>& found) {
  std::vector<TextFile> here;
  fs::recursive_directory_iterator it(folder), end;
  for (; it != end; ++it) {
    const bool hidden = it->path().filename().native().starts_with('.');
    if (it->is_directory()) {
      if (hidden || fs::weakly_canonical(it->path()) == except) it.disable_recursion_pending();
    } else if (!hidden && it->is_regular_file()) {
      here.push_back(describe(it->path(), it->path().lexically_relative(folder)));
    }
  }
  std::ranges::sort(here, {}, &TextFile::name);
  std::ranges::move(here, std::back_inserter(found));
}

}  // namespace

std::vector<TextFile> find_files(const std::vector<std::string>& paths, const std::string& except) {
  std::vector<TextFile> all;
  for (const std::string& path : paths) {
    if (!exists(path)) throw Error("no such file or folder").at(path);
    try {
      if (is_folder(path))
        find_below(path, except.empty() ? fs::path() : fs::weakly_canonical(except), all);
      else
        all.push_back(describe(path, fs::path(path).filename()));
    } catch (const fs::filesystem_error& e) {
      throw Error("cannot list folder: {}", e.code().message()).at(e.path1());
    }
  }
  std::set<fs::path> seen;
  std::erase_if(
      all, [&](const TextFile& f) { return !seen.insert(fs::weakly_canonical(f.path)).second; });
  return all;
}

std::size_t safe_cut(std::string_view text, std::size_t from) {
  for (std::size_t at = from; (at = text.find('\n', at)) != std::string_view::npos; ++at)
    if (at > 0 && at + 1 < text.size() && is_plain(text[at - 1]) && is_plain(text[at + 1]))
      return at + 1;
  return text.size();
}

struct TextReader::Impl {
  std::vector<TextFile> files;
  BadUtf8 bad;
  TextReport report;

  std::size_t next_file = 0;
  const TextFile* file = nullptr;
  std::unique_ptr<ByteSource> source;
  i64 consumed_before = 0;   // of the files before this one
  bool lines = false;        // JSON lines
  std::string raw;           // read, not yet known to be UTF-8 (or, of JSON lines, not yet parsed)
  std::size_t raw_used = 0;  // of JSON lines: how much of raw was parsed
  i64 raw_offset = 0;        // in the unpacked file: of the first byte of raw not used
  i64 line = 0;
  bool file_ended = true;

  std::string text;          // of the current document, not yet handed out
  std::size_t handed = 0;    // of `text`
  bool in_document = false;  // a document is being handed out
  bool started = false;      // its first piece was
  bool complete = true;      // `text` holds all that is left of it

  bool next(Piece& piece) {
    for (;;) {
      if (in_document && hand_out(piece)) return true;
      if (in_document) continue;
      if (file_ended && !open_next()) return false;
      if (lines)
        next_line();
      else if (!file_ended)
        begin_document();
    }
  }

  void begin_document() {
    text.clear();
    handed = 0;
    in_document = true;
    started = false;
    complete = lines;
  }

  /// Hands out a piece of the current document; false when it held (or holds) none.
  bool hand_out(Piece& piece) {
    while (!complete && text.size() - handed < kMost) read_text();
    const std::string_view left = std::string_view(text).substr(handed);
    std::size_t cut = left.size();
    if (cut > 2 * kChunk) {
      cut = safe_cut(left.substr(0, kMost), kChunk);
      if (cut == std::min(left.size(), kMost)) cut = character_start(left, cut);
    }
    piece.last = complete && cut == left.size();
    piece.first = !started;
    in_document = !piece.last;
    if (piece.last && piece.first && left.empty()) return false;
    piece.text.assign(left.substr(0, cut));
    handed += cut;
    report.documents += piece.first;
    report.bytes += static_cast<i64>(cut);
    started = true;
    if (handed >= kMost) {
      text.erase(0, handed);
      handed = 0;
    }
    return true;
  }

  /// Reads a chunk behind `raw`; false at the end of the file.
  bool read_raw() {
    const std::size_t before = raw.size();
    raw.resize(before + kChunk);
    const std::size_t n = source->read(raw.data() + before, kChunk);
    raw.resize(before + n);
    return n > 0;
  }

  /// Moves a chunk of a plain file into `text`.
  void read_text() {
    const bool more = read_raw();
    std::size_t usable = raw.size();
    if (more)  // the chunk may end within a character
      for (std::size_t back = 1; back <= 3 && back <= raw.size(); ++back)
        if (is_cut_short(std::string_view(raw).substr(raw.size() - back)))
          usable = raw.size() - back;
    repair(std::string_view(raw).substr(0, usable), raw_offset, text);
    raw_offset += static_cast<i64>(usable);
    raw.erase(0, usable);
    complete = file_ended = !more;
  }

  /// Appends to `out`; returns how many sequences were bad.
  i64 repair(std::string_view bytes, i64 offset, std::string& out) {
    std::vector<i64> places;
    append_repaired(out, bytes, places);
    for (const i64 p : places) {
      if (bad == BadUtf8::refuse)
        throw Error("not UTF-8 at byte {}", offset + p)
            .at(file->path)
            .hint("--bad-utf8 replace puts U+FFFD there, --bad-utf8 skip leaves the document out");
      if (report.bad_places.size() < TextReport::kNamed)
        report.bad_places.push_back(fmt::format("{}: byte {}", file->path, offset + p));
    }
    report.bad_sequences += static_cast<i64>(places.size());
    return static_cast<i64>(places.size());
  }

  bool open_next() {
    if (source) consumed_before += file->size;
    source.reset();
    if (next_file == files.size()) return false;
    file = &files[next_file++];
    const std::string name = unpacked_name(file->name);
    lines = name.ends_with(".jsonl") || name.ends_with(".ndjson");
    restart();
    bool more = read_raw();
    if (raw.find('\0') < kSniff) {
      ++report.binary_files;
      if (report.binary.size() < TextReport::kNamed) report.binary.push_back(file->path);
      return true;
    }
    if (!lines && bad == BadUtf8::skip) {
      if (has_bad()) {
        ++report.skipped_documents;
        return true;
      }
      restart();
      more = read_raw();
    }
    file_ended = !more;
    if (raw.starts_with("\xEF\xBB\xBF")) {  // a byte order mark is no text
      raw.erase(0, 3);
      raw_offset = 3;
    }
    return true;
  }

  void restart() {
    source = std::make_unique<ByteSource>(file->path);
    raw.clear();
    raw_used = 0;
    raw_offset = 0;
    line = 0;
  }

  /// Reads the whole file, to know before its first piece is handed out.
  bool has_bad() {
    const i64 before = report.bad_sequences;
    for (complete = false; !complete; text.clear()) read_text();
    file_ended = true;
    return report.bad_sequences > before;
  }

  /// Takes the next line of a JSON lines file, and begins the document it holds.
  void next_line() {
    std::size_t end = raw.find('\n', raw_used);
    while (end == std::string::npos && !file_ended) {
      raw.erase(0, raw_used);
      raw_used = 0;
      const std::size_t from = raw.size();
      file_ended = !read_raw();
      end = raw.find('\n', from);
    }
    end = std::min(end, raw.size());
    ++line;
    std::string utf8;
    const i64 wrong =
        repair(std::string_view(raw).substr(raw_used, end - raw_used), raw_offset, utf8);
    raw_offset += static_cast<i64>(end + 1 - raw_used);
    raw_used = std::min(raw.size(), end + 1);
    if (wrong > 0 && bad == BadUtf8::skip) {
      ++report.skipped_documents;
    } else if (!std::ranges::all_of(utf8, is_space)) {
      begin_document();
      text = parse_line(utf8);
    }
  }

  std::string parse_line(const std::string& utf8) const {
    const auto j = nlohmann::json::parse(utf8, nullptr, false);
    const auto at = static_cast<int>(std::min<i64>(line, INT32_MAX));
    if (j.is_discarded()) throw Error("not a line of JSON").at(file->path, at);
    if (!j.is_object() || !j.contains("text") || !j["text"].is_string())
      throw Error("a line of JSON without a string \"text\"")
          .at(file->path, at)
          .hint("each line must be an object such as {{\"text\": \"Once upon a time\"}}");
    return j["text"].get<std::string>();
  }
};

TextReader::TextReader(std::vector<TextFile> files, BadUtf8 bad) : impl_(std::make_unique<Impl>()) {
  impl_->files = std::move(files);
  impl_->bad = bad;
}
TextReader::~TextReader() = default;

bool TextReader::next(Piece& piece) { return impl_->next(piece); }
const TextReport& TextReader::report() const { return impl_->report; }
i64 TextReader::consumed() const {
  return impl_->consumed_before + (impl_->source ? impl_->source->consumed() : 0);
}

}  // namespace lathe::data
