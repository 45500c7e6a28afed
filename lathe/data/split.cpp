#include "lathe/data/split.h"

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "lathe/base/error.h"
#include "lathe/base/view.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace lathe::data {

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

enum class Kind : u8 { letter, digit, space, other, beyond };

constexpr std::array<Kind, 256> kKinds = [] {
  std::array<Kind, 256> k{};
  for (std::size_t c = 0; c < 256; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool space = c == ' ' || (c >= 9 && c <= 13);
    k[c] = letter                 ? Kind::letter
           : c >= '0' && c <= '9' ? Kind::digit
           : space                ? Kind::space
           : c >= 0x80            ? Kind::beyond
                                  : Kind::other;
  }
  return k;
}();

Kind kind(char c) { return kKinds[static_cast<u8>(c)]; }

/// Past the last byte of one kind, from `at` on.
std::size_t run_end(std::string_view text, std::size_t at, Kind k) {
  while (at < text.size() && kind(text[at]) == k) ++at;
  return at;
}

bool starts_beyond(std::string_view text, std::size_t at) {
  return at < text.size() && kind(text[at]) == Kind::beyond;
}

/// Length of a contraction ('s, 'll, …) at `at`, 0 if there is none.
std::size_t contraction(std::string_view text, std::size_t at) {
  if (text[at] != '\'' || at + 1 >= text.size()) return 0;
  const char a = text[at + 1];
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if (at + 2 >= text.size()) return 0;
  const char b = text[at + 2];
  return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/// The end of GPT-2's word at `at`, or `at` itself where a byte beyond ASCII has a say in it.
std::size_t ascii_word_end(std::string_view text, std::size_t at) {
  if (const std::size_t n = contraction(text, at)) return at + n;
  const std::size_t first = at + (text[at] == ' ');
  if (first < text.size() && kind(text[first]) != Kind::space) {
    if (kind(text[first]) == Kind::beyond) return at;
    const std::size_t end = run_end(text, first, kind(text[first]));
    return starts_beyond(text, end) ? at : end;
  }
  const std::size_t end = run_end(text, at, Kind::space);
  if (starts_beyond(text, end)) return at;
  // \s+(?!\S) leaves the last space to the word behind it; a lone one is taken by \s+
  return end == text.size() || end - at == 1 ? end : end - 1;
}

/// PCRE2's \s knows U+180E too, which Unicode's White_Space and thus other tokenizers do not: \s is
/// spelt out, in classes and outside. \S within a class stays.
std::string spell_spaces(const std::string& pattern) {
  static constexpr std::string_view kSpaces = R"(\p{Z}\x{9}-\x{d}\x{85})";
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's')
        out += in_class ? std::string(kSpaces) : fmt::format("[{}]", kSpaces);
      else if (escaped == 'S' && !in_class)
        out += fmt::format("[^{}]", kSpaces);
      else
        out.append({c, escaped});
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

}  // namespace

struct Splitter::Code {
  pcre2_code* code = nullptr;
  bool jit = false;
  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

Splitter::Splitter(std::string pattern)
    : pattern_(std::move(pattern)),
      gpt2_(pattern_ == kGpt2Pattern),
      code_(std::make_unique<Code>()) {
  const std::string spelt = spell_spaces(pattern_);
  int number = 0;
  PCRE2_SIZE offset = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelt.data()), spelt.size(),
                              PCRE2_UTF | PCRE2_UCP, &number, &offset, nullptr);
  if (!code_->code) {
    std::array<PCRE2_UCHAR, 256> text{};
    pcre2_get_error_message(number, text.data(), text.size());
    throw Error("the tokenizer's splitting pattern is not understood: {}",
                reinterpret_cast<const char*>(text.data()))
        .hint("the pattern is {}", pattern_);
  }
  code_->jit = pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE) == 0;
}

Splitter::~Splitter() = default;
Splitter::Splitter(Splitter&&) noexcept = default;
Splitter& Splitter::operator=(Splitter&&) noexcept = default;

struct Splitter::Cursor::State {
  const pcre2_code* code;
  bool jit, gpt2;
  pcre2_match_data* found = nullptr;
  pcre2_match_context* limits = nullptr;
  pcre2_jit_stack* stack = nullptr;

  State(const pcre2_code* c, bool use_jit, bool is_gpt2) : code(c), jit(use_jit), gpt2(is_gpt2) {
    found = pcre2_match_data_create(1, nullptr);
    limits = pcre2_match_context_create(nullptr);
    stack = pcre2_jit_stack_create(std::size_t{32} << 10, std::size_t{8} << 20, nullptr);
    if (!found || !limits) throw std::bad_alloc();
    if (stack) pcre2_jit_stack_assign(limits, nullptr, stack);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    pcre2_match_data_free(found);
    pcre2_match_context_free(limits);
    pcre2_jit_stack_free(stack);
  }

  int match(std::string_view text, std::size_t at) const {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    if (jit) return pcre2_jit_match(code, subject, text.size(), at, 0, found, limits);
    return pcre2_match(code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, found, limits);
  }
};

Splitter::Cursor::Cursor(const Splitter& s)
    : state_(std::make_unique<State>(s.code_->code, s.code_->jit, s.gpt2_)) {}
Splitter::Cursor::~Cursor() = default;
Splitter::Cursor::Cursor(Cursor&&) noexcept = default;

Splitter::Cursor::Match Splitter::Cursor::find(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const int status = state_->match(text, at);
    if (status == PCRE2_ERROR_NOMATCH) break;
    if (status < 0)
      throw Error("the tokenizer's splitting pattern exceeds PCRE2's limits (its error {})", status)
          .hint("cut the text into shorter documents");
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(state_->found);
    if (bounds[1] > bounds[0]) return {bounds[0], bounds[1]};
    at = bounds[1] + 1;
    while (at < text.size() && (static_cast<u8>(text[at]) & 0xC0) == 0x80) ++at;
  }
  return {text.size(), text.size()};
}

std::size_t Splitter::Cursor::word_end_by_pcre2(std::string_view text, std::size_t at) {
  const Match m = find(text, at);
  return m.begin > at ? m.begin : m.end;
}

std::size_t Splitter::Cursor::word_end(std::string_view text, std::size_t at) {
  if (state_->gpt2) {
    const std::size_t end = ascii_word_end(text, at);
    if (end > at) return end;
  }
  return word_end_by_pcre2(text, at);
}

}  // namespace lathe::data
