#pragma once
// Cutting text into the words within which pairs are merged. The pattern is a regular expression
// run by PCRE2; for GPT-2's, words of plain ASCII are found by hand, several times faster, and any
// byte beyond ASCII within a word or just behind it hands that word to PCRE2.

#include <memory>
#include <string>
#include <string_view>

#include "lathe/base/view.h"

namespace lathe::data {

/// GPT-2's splitting pattern (Radford et al., 2019), as tokenizer.json's ByteLevel means it.
extern const char* const kGpt2Pattern;

class Splitter {
 public:
  /// How the words of one text are found: holds the memory of the matcher, so one per thread.
  class Cursor;

  /// Throws Error when PCRE2 refuses the pattern.
  explicit Splitter(std::string pattern);
  ~Splitter();
  Splitter(Splitter&&) noexcept;
  Splitter& operator=(Splitter&&) noexcept;

  const std::string& pattern() const { return pattern_; }
  bool gpt2() const { return gpt2_; }

 private:
  struct Code;
  std::string pattern_;
  bool gpt2_;
  std::unique_ptr<Code> code_;
};

class Splitter::Cursor {
 public:
  explicit Cursor(const Splitter& s);
  ~Cursor();
  Cursor(Cursor&&) noexcept;
  Cursor& operator=(Cursor&&) = delete;

  /// The end of the word that starts at `at` < text.size(). What lies between two matches is a word
  /// of its own. `text` must be well-formed UTF-8. Throws Error when the pattern exceeds PCRE2's
  /// limits on this text.
  std::size_t word_end(std::string_view text, std::size_t at);
  /// The same by PCRE2 alone: what the fast path is tested against.
  std::size_t word_end_by_pcre2(std::string_view text, std::size_t at);

  /// The first non-empty match at or after `at`; begin == text.size() when there is none.
  struct Match {
    std::size_t begin, end;
  };
  Match find(std::string_view text, std::size_t at);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lathe::data
