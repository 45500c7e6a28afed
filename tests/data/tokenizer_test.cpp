#include "lathe/data/tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/data/bpe.h"
#include "lathe/data/bpe_train.h"
#include "lathe/data/split.h"
#include "tests/data/sample_text.h"
#include "tests/data/scratch_folder.h"

namespace lathe::data {
namespace {

std::string code_points() {
  std::string text;
  for (u32 c = 0; c < 0x110000; c = c < 0x3000 ? c + 1 : c + 61) {
    if (c >= 0xD800 && c < 0xE000) continue;
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else if (c < 0x800) {
      text += {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
    } else if (c < 0x10000) {
      text += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
               static_cast<char>(0x80 | (c & 63))};
    } else {
      text += {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)),
               static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
    }
  }
  return text;
}

const Tokenizer& sample_tokenizer() {
  static const Tokenizer t = [] {
    const std::string text = sample_text(20000, 7);
    return Tokenizer::train({text}, 600, 1);
  }();
  return t;
}

/// Merges by looking at the whole list for every one of them: the definition.
std::vector<i32> merge_plainly(std::string_view word, const std::vector<Merge>& merges) {
  std::vector<i32> ids;
  for (const char c : word) ids.push_back(static_cast<u8>(c));
  for (;;) {
    const Merge* best = nullptr;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i)
      for (const Merge& m : merges)
        if (m.left == ids[i] && m.right == ids[i + 1] && (!best || &m < best)) best = &m;
    if (!best) return ids;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i)
      if (ids[i] == best->left && ids[i + 1] == best->right) {
        ids[i] = best->id;
        ids.erase(ids.begin() + static_cast<i64>(i) + 1);
        break;
      }
  }
}

/// Learns by counting every pair anew for every merge: the definition.
std::vector<Merge> learn_plainly(const std::vector<std::string>& words, i64 count) {
  std::vector<std::vector<i32>> rows;
  for (const std::string& w : words) {
    rows.emplace_back();
    for (const char c : w) rows.back().push_back(static_cast<u8>(c));
  }
  std::vector<Merge> merges;
  while (static_cast<i64>(merges.size()) < count) {
    std::map<std::pair<i32, i32>, i64> pairs;
    for (const auto& r : rows)
      for (std::size_t i = 0; i + 1 < r.size(); ++i) ++pairs[{r[i], r[i + 1]}];
    const auto best = std::ranges::max_element(
        pairs, [](const auto& a, const auto& b) { return a.second < b.second; });
    if (best == pairs.end() || best->second < 2) break;
    const Merge m{best->first.first, best->first.second, static_cast<i32>(256 + merges.size())};
    merges.push_back(m);
    for (auto& r : rows)
      for (std::size_t i = 0; i + 1 < r.size(); ++i)
        if (r[i] == m.left && r[i + 1] == m.right) {
          r[i] = m.id;
          r.erase(r.begin() + static_cast<i64>(i) + 1);
        }
  }
  return merges;
}

TEST(Tokenizer, AnyBytesComeBack) {
  for (u64 seed = 0; seed < 200; ++seed) {
    const std::string bytes = random_bytes(static_cast<i64>(seed), seed);
    ASSERT_EQ(sample_tokenizer().decode(sample_tokenizer().encode(bytes)), bytes);
  }
}

TEST(Tokenizer, TextOfAllPlanesComesBack) {
  const std::string text = code_points();
  EXPECT_EQ(sample_tokenizer().decode(sample_tokenizer().encode(text)), text);
}

TEST(Tokenizer, EmptyTextHasNoIds) { EXPECT_TRUE(sample_tokenizer().encode("").empty()); }

TEST(Tokenizer, EndOfTextIsTheLastIdAndIsNotFoundInText) {
  const Tokenizer& t = sample_tokenizer();
  EXPECT_EQ(t.end_of_text(), t.size() - 1);
  EXPECT_EQ(t.bytes(t.end_of_text()), "<|endoftext|>");
  EXPECT_EQ(std::ranges::count(t.encode("<|endoftext|>"), t.end_of_text()), 0);
}

TEST(Tokenizer, IdsOutOfRangeStandForNothing) {
  EXPECT_EQ(sample_tokenizer().decode({-1, 65, static_cast<i32>(sample_tokenizer().size())}), "A");
}

TEST(Tokenizer, LearntMergesAreThoseOfTheDefinition) {
  const std::string text = sample_text(400, 3);
  const Splitter splitter(kGpt2Pattern);
  Splitter::Cursor cursor(splitter);
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = cursor.word_end(text, at);
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  Queue q(1);
  WordCounter counter(1);
  const std::string_view view = text;
  counter.add(q, {&view, 1});
  const std::vector<Merge> learnt = learn_merges(counter.words(), 150);
  ASSERT_GT(learnt.size(), 80u);
  EXPECT_EQ(learnt, learn_plainly(words, 150));
}

TEST(Tokenizer, RepeatedLettersAreCountedAsTheyAreMerged) {
  Queue q(1);
  WordCounter counter(1);
  const std::vector<std::string> words{"aaaa", " aaa", " aaaaaaa", " baaab", " abababa"};
  std::string text;
  for (const auto& w : words) text += w;
  const std::string_view view = text;
  counter.add(q, {&view, 1});
  EXPECT_EQ(learn_merges(counter.words(), 20), learn_plainly(words, 20));
}

TEST(Tokenizer, TiesGoToTheSmallerIds) {
  Queue q(1);
  WordCounter counter(1);
  const std::string_view text = "zb zb ab ab ac ac";
  counter.add(q, {&text, 1});
  const auto merges = learn_merges(counter.words(), 2);
  // " a" occurs four times; then "ab", " z" … twice or less: " " is the smallest left id
  EXPECT_EQ(merges[0], (Merge{' ', 'a', 256}));
  EXPECT_EQ(merges[1], (Merge{'z', 'b', 257}));
}

TEST(Tokenizer, WordsOfEveryLengthMergeAsTheDefinitionSays) {
  std::vector<Merge> merges{{'a', 'a', 256}, {'a', 'b', 257}, {256, 256, 258}, {257, 257, 259},
                            {258, 'b', 260}, {'b', 257, 261}, {260, 259, 262}};
  std::array<i32, 256> bytes{};
  for (int b = 0; b < 256; ++b) bytes[static_cast<std::size_t>(b)] = b;
  const Bpe bpe(bytes, merges);
  WordCache cache;
  for (std::size_t length = 1; length < 140; ++length)
    for (u64 seed = 0; seed < 8; ++seed) {
      std::string word;
      const Rng rng{seed, Draw::sample, length};
      for (std::size_t i = 0; i < length; ++i) word += "aab"[rng.word(i) % 3];
      const std::vector<i32> expected = merge_plainly(word, merges);
      std::vector<i32> plain, cached;
      bpe.append(word, plain);
      cache.append(bpe, word, cached);
      ASSERT_EQ(plain, expected) << word;
      ASSERT_EQ(cached, expected) << word;
      cache.append(bpe, word, cached);
      ASSERT_EQ(cached.size(), 2 * expected.size());
      ASSERT_TRUE(
          std::equal(expected.begin(), expected.end(), cached.begin() + std::ssize(expected)));
    }
}

TEST(Tokenizer, DoesNotDependOnThreadsOrOnHowTextsArePassed) {
  std::vector<std::string> texts;
  for (u64 i = 0; i < 9; ++i) texts.push_back(sample_text(500, i));
  std::vector<std::string_view> views(texts.begin(), texts.end());
  const std::string one = Tokenizer::train(views, 500, 1).hash();
  EXPECT_EQ(Tokenizer::train(views, 500, 2).hash(), one);
  EXPECT_EQ(Tokenizer::train(views, 500, 4).hash(), one);
  std::ranges::reverse(views);
  EXPECT_EQ(Tokenizer::train(views, 500, 4).hash(), one);
}

TEST(Tokenizer, StopsWhenNoPairOccursTwice) {
  EXPECT_EQ(Tokenizer::train({"abcdefg"}, 5000, 1).size(), 257);
  EXPECT_EQ(Tokenizer::train({}, 5000, 1).size(), 257);
  EXPECT_EQ(Tokenizer::train({"ab ab"}, 5000, 1).size(), 258);
}

TEST(Tokenizer, AVocabularyWithoutRoomForBytesIsRefused) {
  EXPECT_THROW(Tokenizer::train({"abc"}, 256, 1), Error);
}

TEST(Tokenizer, ThreadsMayShareOne) {
  const std::string text = sample_text(3000, 11);
  const std::vector<i32> expected = sample_tokenizer().encode(text);
  std::vector<std::vector<i32>> got(4);
  {
    std::vector<std::jthread> threads;
    for (auto& g : got) threads.emplace_back([&] { g = sample_tokenizer().encode(text); });
  }
  for (const auto& g : got) EXPECT_EQ(g, expected);
}

TEST(Tokenizer, ASavedOneReadsBackTheSame) {
  const ScratchFolder folder;
  sample_tokenizer().save(folder / "tokenizer.json");
  const Tokenizer back = Tokenizer::load(folder / "tokenizer.json");
  EXPECT_EQ(back.hash(), sample_tokenizer().hash());
  EXPECT_EQ(back.end_of_text(), sample_tokenizer().end_of_text());
  const std::string text = sample_text(2000, 12) + random_bytes(500, 1);
  EXPECT_EQ(back.encode(text), sample_tokenizer().encode(text));
}

TEST(Tokenizer, AFailedSaveLeavesTheOldFile) {
  const ScratchFolder folder;
  const std::string path = folder.write("tokenizer.json", "old");
  for (i64 n = 0; n < 3; ++n) {
    faults::clear();
    faults::fail_any_after(n, ENOSPC);
    EXPECT_THROW(sample_tokenizer().save(path), Error) << n;
    faults::clear();
    EXPECT_EQ(read_file(path), "old") << n;
  }
}

nlohmann::json saved_json() {
  const ScratchFolder folder;
  sample_tokenizer().save(folder / "tokenizer.json");
  return nlohmann::json::parse(read_file(folder / "tokenizer.json"));
}

std::string refusal(const nlohmann::json& j) {
  const ScratchFolder folder;
  const std::string path = folder.write("tokenizer.json", j.dump());
  try {
    Tokenizer::load(path);
  } catch (const Error& e) {
    EXPECT_NE(e.report().find(path), std::string::npos) << "the file is not named";
    return e.what();
  }
  return "";
}

TEST(Tokenizer, WhatIsNotSupportedIsNamed) {
  auto j = saved_json();
  j["model"]["type"] = "Unigram";
  EXPECT_NE(refusal(j).find("Unigram"), std::string::npos);
  j = saved_json();
  j["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_NE(refusal(j).find("Lowercase"), std::string::npos);
  j = saved_json();
  j["pre_tokenizer"] = {{"type", "Metaspace"}};
  EXPECT_NE(refusal(j).find("Metaspace"), std::string::npos);
  j = saved_json();
  j["model"]["byte_fallback"] = true;
  EXPECT_NE(refusal(j).find("byte_fallback"), std::string::npos);
}

TEST(Tokenizer, DamagedFilesAreErrorsThatNameTheFile) {
  auto j = saved_json();
  j["model"]["merges"][0] = "q";
  EXPECT_NE(refusal(j), "");
  j = saved_json();
  j["model"]["merges"][0] = "zzz zzz";
  EXPECT_NE(refusal(j), "");
  j = saved_json();
  j["model"]["vocab"]["a"] = -5;
  EXPECT_NE(refusal(j), "");
  j = saved_json();
  j["model"]["vocab"].erase("a");
  EXPECT_NE(refusal(j), "");
  j = saved_json();
  j.erase("model");
  EXPECT_NE(refusal(j), "");
  j = saved_json();
  j["added_tokens"][0]["id"] = i64{1} << 40;
  EXPECT_NE(refusal(j), "");
  EXPECT_NE(refusal(nlohmann::json::array()), "");
  EXPECT_NE(refusal("text"), "");
}

TEST(Tokenizer, EveryCutOfAFileIsAnError) {
  const std::string whole = saved_json().dump();
  const ScratchFolder folder;
  for (std::size_t n = 0; n < whole.size(); n += whole.size() / 60 + 1)
    EXPECT_THROW(Tokenizer::load(folder.write("t.json", whole.substr(0, n))), Error) << n;
}

TEST(Tokenizer, NfcComposesBeforeItSplits) {
  auto j = saved_json();
  j["normalizer"] = {{"type", "NFC"}};
  const ScratchFolder folder;
  const Tokenizer t = Tokenizer::load(folder.write("tokenizer.json", j.dump()));
  EXPECT_EQ(t.decode(t.encode("e\xCC\x81")), "\xC3\xA9");
  EXPECT_NE(t.hash(), sample_tokenizer().hash());
}

TEST(Tokenizer, TokensAddedAsTextAreFoundLongestFirst) {
  auto j = saved_json();
  const i64 n = sample_tokenizer().size();
  j["added_tokens"].push_back({{"id", n}, {"content", "**"}, {"special", false}});
  j["added_tokens"].push_back({{"id", n + 1}, {"content", "***"}, {"special", false}});
  const ScratchFolder folder;
  const Tokenizer t = Tokenizer::load(folder.write("tokenizer.json", j.dump()));
  EXPECT_EQ(t.encode("a*****b"),
            (std::vector<i32>{'a', static_cast<i32>(n + 1), static_cast<i32>(n), 'b'}));
}

}  // namespace
}  // namespace lathe::data
