#include "lathe/data/split.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/data/text.h"
#include "lathe/data/utf8.h"
#include "tests/data/sample_text.h"

namespace lathe::data {
namespace {

using Words = std::vector<std::string>;

Words words_of(const Splitter& s, std::string_view text) {
  Splitter::Cursor c(s);
  Words words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = c.word_end(text, at);
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

TEST(Split, Gpt2PatternSplitsAsItsAuthorsSplit) {
  const Splitter s(kGpt2Pattern);
  EXPECT_EQ(words_of(s, "Hello  world, we'll've 3 cats' 12x\n\n  end \n"),
            (Words{"Hello", " ", " world", ",", " we", "'ll", "'ve", " 3", " cats", "'", " 12", "x",
                   "\n\n ", " end", " \n"}));
  EXPECT_EQ(words_of(s, "'S 's'"), (Words{"'", "S", " '", "s", "'"}));
}

TEST(Split, FastPathFindsTheWordsThatPcre2Finds) {
  const Splitter s(kGpt2Pattern);
  Splitter::Cursor c(s);
  // every text of up to four of these; the last ones are beyond ASCII: é, U+00A0, ½, U+180E
  const std::vector<std::string> parts{"a",
                                       "Z",
                                       "7",
                                       " ",
                                       "\n",
                                       "\t",
                                       "'",
                                       "s",
                                       "ll",
                                       ".",
                                       std::string("\0", 1),
                                       "\x1F",
                                       "\xC3\xA9",
                                       "\xC2\xA0",
                                       "\xC2\xBD",
                                       "\xE1\xA0\x8E"};
  const std::size_t n = parts.size();
  for (std::size_t code = 0; code < n * n * n * n; ++code) {
    const std::string text =
        parts[code % n] + parts[code / n % n] + parts[code / n / n % n] + parts[code / n / n / n];
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = c.word_end(text, at);
      ASSERT_EQ(end, c.word_end_by_pcre2(text, at)) << text << " at " << at;
      at = end;
    }
  }
}

TEST(Split, FastPathFindsTheWordsThatPcre2FindsInRandomText) {
  const Splitter s(kGpt2Pattern);
  Splitter::Cursor c(s);
  for (u64 seed = 0; seed < 300; ++seed) {
    std::string text;
    std::vector<i64> places;
    append_repaired(text, random_bytes(300, seed), places);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = c.word_end(text, at);
      ASSERT_EQ(end, c.word_end_by_pcre2(text, at)) << text << " at " << at;
      at = end;
    }
  }
}

TEST(Split, SpacesAreUnicodesWhiteSpaceAndNotPcre2s) {
  // U+180E is a space to PCRE2's \s alone; U+0085 to Unicode's
  const Splitter s(R"(\s+|\S+|[\s]+)");
  EXPECT_EQ(words_of(s, "a\xE1\xA0\x8E"), (Words{"a\xE1\xA0\x8E"}));
  EXPECT_EQ(words_of(s, "a\xC2\x85"), (Words{"a", "\xC2\x85"}));
}

TEST(Split, TextBetweenMatchesIsAWordOfItsOwn) {
  const Splitter s("b+");
  EXPECT_EQ(words_of(s, "aabbacb"), (Words{"aa", "bb", "ac", "b"}));
  EXPECT_EQ(words_of(Splitter("b*"),
                     "\xC3\xA9"
                     "ab"),
            (Words{"\xC3\xA9"
                   "a",
                   "b"}));
}

TEST(Split, ACutBehindALineKeepsTheWords) {
  const Splitter s(kGpt2Pattern);
  for (u64 seed = 0; seed < 20; ++seed) {
    const std::string text = sample_text(200, seed);
    const std::size_t cut = safe_cut(text, text.size() / 2);
    Words joined = words_of(s, std::string_view(text).substr(0, cut));
    for (std::string& w : words_of(s, std::string_view(text).substr(cut))) joined.push_back(w);
    EXPECT_EQ(joined, words_of(s, text));
  }
}

TEST(Split, ABadPatternIsAnErrorThatShowsIt) {
  try {
    const Splitter s("(a");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(e.report().find("(a"), std::string::npos);
  }
}

}  // namespace
}  // namespace lathe::data
