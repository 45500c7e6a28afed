#include "lathe/data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/data/epoch_order.h"
#include "lathe/data/shards_index.h"
#include "lathe/data/tokens.h"
#include "tests/data/scratch_folder.h"

namespace lathe::data {
namespace {

constexpr i32 kEnd = 0;  // the end-of-text id of these folders

struct Shards {
  ScratchFolder folder;
  std::vector<i32> stream;  // of the training part

  /// Documents of 5, 6, 7 … ids, in files of `file_tokens` ids. Held out: 30 ids.
  explicit Shards(i64 documents = 40, i64 file_tokens = 100, i64 vocab = 500) {
    ShardsIndex x;
    x.kind = {vocab, kEnd, std::string(32, 'a')};
    x.tokenizer_file = "tokenizer.json";
    TokensWriter train(folder.path(), "train", x.kind, file_tokens);
    for (i64 d = 0; d < documents; ++d) {
      train.begin_document();
      stream.push_back(kEnd);
      for (i64 i = 0; i < 5 + d; ++i) {
        stream.push_back(static_cast<i32>(1 + (7 * d + i) % (vocab - 1)));
        train.add({&stream.back(), 1});
      }
    }
    stream.push_back(kEnd);
    enter(train, x.train);
    TokensWriter held(folder.path(), "held-out", x.kind, file_tokens);
    held.begin_document();
    for (i32 i = 1; i < 29; ++i) held.add({&i, 1});
    enter(held, x.held_out);
    write_index(folder.path(), x);
  }

  static void enter(TokensWriter& w, ShardsIndex::Part& part) {
    part.files = w.finish();
    for (const TokensEntry& e : part.files) part.tokens += e.tokens;
  }

  std::unique_ptr<Loader> open(i64 context = 16, i64 vocab = 500, u64 seed = 1,
                               Loader::Part part = Loader::Part::train) const {
    return std::make_unique<Loader>(folder.path(), part, context, vocab, seed);
  }
};

struct Rows {
  std::vector<i32> ids, targets, doc_start;
  i64 unmasked = 0;
};

Rows fill(const Loader& loader, i64 first, i64 count, i64 time) {
  const auto n = static_cast<std::size_t>(count * time);
  Rows r{std::vector<i32>(n), std::vector<i32>(n), std::vector<i32>(n), 0};
  r.unmasked = loader.fill(first, count, time, r.ids.data(), r.targets.data(), r.doc_start.data());
  return r;
}

std::string report_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.report();
  }
  return "";
}

TEST(EpochOrder, EachEpochIsAPermutation) {
  for (i64 n : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000}) {
    const EpochOrder order(n, 9);
    for (i64 epoch = 0; epoch < 3; ++epoch) {
      std::set<i64> seen;
      for (i64 i = 0; i < n; ++i) seen.insert(order.at(epoch * n + i));
      ASSERT_EQ(std::ssize(seen), n);
      ASSERT_EQ(*seen.begin(), 0);
      ASSERT_EQ(*seen.rbegin(), n - 1);
    }
  }
}

TEST(EpochOrder, EpochsAndSeedsDiffer) {
  const EpochOrder a(1000, 1), b(1000, 2);
  i64 same_epoch = 0, same_seed = 0, in_place = 0;
  for (i64 i = 0; i < 1000; ++i) {
    same_epoch += a.at(i) == a.at(1000 + i);
    same_seed += a.at(i) == b.at(i);
    in_place += a.at(i) == i;
  }
  // matches of random permutations are Poisson with mean 1: above 12 has a chance below 1e-9
  EXPECT_LT(same_epoch, 13);
  EXPECT_LT(same_seed, 13);
  EXPECT_LT(in_place, 13);
}

TEST(Loader, OneEpochHoldsEverySequenceOnceAcrossFiles) {
  const Shards s;
  const auto loader = s.open();
  const i64 n = loader->sequences();
  EXPECT_EQ(n, (std::ssize(s.stream) - 1) / 16);
  std::set<i64> met;
  for (i64 i = 0; i < n; ++i) {
    const Rows r = fill(*loader, i, 1, 32);
    i64 sequence = -1;
    for (i64 q = 0; q < n; ++q)
      if (std::equal(r.ids.begin(), r.ids.begin() + 16, s.stream.begin() + q * 16) &&
          std::equal(r.targets.begin(), r.targets.begin() + 16, s.stream.begin() + q * 16 + 1) &&
          !met.contains(q))
        sequence = q;
    ASSERT_GE(sequence, 0) << i;
    met.insert(sequence);
  }
  EXPECT_EQ(std::ssize(met), n);
}

TEST(Loader, TheStateIsOneInteger) {
  const Shards s;
  const auto loader = s.open();
  const Rows whole = fill(*loader, 0, 200, 16);  // several epochs
  const auto again = s.open();
  for (const i64 first : {0, 1, 77, 150}) {
    const Rows part = fill(*again, first, 50, 16);
    EXPECT_TRUE(std::equal(part.ids.begin(), part.ids.end(), whole.ids.begin() + first * 16));
    EXPECT_TRUE(
        std::equal(part.targets.begin(), part.targets.end(), whole.targets.begin() + first * 16));
  }
}

TEST(Loader, DocumentsStartAtTheEndOfTextAndPaddingHasNoTarget) {
  const Shards s;
  const Rows r = fill(*s.open(20, 500, 1, Loader::Part::train), 0, 30, 32);
  EXPECT_EQ(r.unmasked, 30 * 20);
  for (i64 row = 0; row < 30; ++row) {
    i32 start = 0;
    for (i64 t = 0; t < 32; ++t) {
      const auto i = static_cast<std::size_t>(row * 32 + t);
      if (r.ids[i] == kEnd) start = static_cast<i32>(t);
      EXPECT_EQ(r.doc_start[i], t < 20 ? start : t);
      EXPECT_EQ(r.targets[i] == -1, t >= 20);
      if (t + 1 < 20) {
        EXPECT_EQ(r.targets[i], r.ids[i + 1]);
      }
    }
  }
}

TEST(Loader, HeldOutTextIsInFileOrder) {
  const Shards s;
  const auto loader = s.open(7, 500, 1, Loader::Part::held_out);
  EXPECT_EQ(loader->sequences(), 4);
  const Rows r = fill(*loader, 0, 4, 7);
  for (i32 i = 0; i < 28; ++i) EXPECT_EQ(r.ids[static_cast<std::size_t>(i)], i);
}

TEST(Loader, WideVocabulariesTakeFourBytesAndReadTheSame) {
  const Shards s(20, 64, 70000);
  const auto loader = s.open(16, 70000);
  EXPECT_GE(std::filesystem::file_size(s.folder / "train-00000.tokens"), 128u + 64 * 4);
  const Rows r = fill(*loader, 0, loader->sequences(), 16);
  std::multiset<i32> expected(s.stream.begin(), s.stream.begin() + loader->sequences() * 16);
  EXPECT_EQ(std::multiset<i32>(r.ids.begin(), r.ids.end()), expected);
}

TEST(Loader, AContextLongerThanTheTextSaysHowMuchThereIs) {
  const Shards s(3);
  const i64 n = std::ssize(s.stream);
  EXPECT_NO_THROW(s.open(n - 1));
  EXPECT_NE(report_of([&] { s.open(n); }).find(std::to_string(n)), std::string::npos);
}

TEST(Loader, IdsOutOfRangeAreNamedAlsoWhenTheFileWasCheckedBefore) {
  const Shards s;
  const auto place =
      std::ranges::find_if(s.stream, [](i32 id) { return id >= 250; }) - s.stream.begin();
  const std::string file = fmt::format("train-{:05}.tokens", place / 100);
  for (int i = 0; i < 2; ++i) {
    const std::string r = report_of([&] { s.open(16, 250); });
    EXPECT_NE(r.find(file), std::string::npos) << r;
    EXPECT_NE(r.find(fmt::format("token {} is id 250, out of range", place % 100)),
              std::string::npos)
        << r;
  }
  EXPECT_NO_THROW(s.open(16, 500));
}

TEST(Loader, EveryChangedByteOfAFileIsNoticed) {
  const Shards s(8, 1000);
  const std::string path = s.folder / "train-00000.tokens";
  const std::string whole = read_file(path);
  for (std::size_t at = 0; at < whole.size(); at += at < 128 ? 1 : 13) {
    if (at >= 32 && at < 36) continue;    // the vocabulary's size is told by the index
    if (at >= 104 && at < 128) continue;  // unused
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ 0x41);
    s.folder.write("train-00000.tokens", bad);
    std::filesystem::remove(path + ".checked");
    EXPECT_NE(report_of([&] { s.open(); }).find(path), std::string::npos) << "byte " << at;
  }
}

TEST(Loader, EveryCutOfAFileIsNoticed) {
  const Shards s(8, 1000);
  const std::string path = s.folder / "train-00000.tokens";
  const std::string whole = read_file(path);
  for (std::size_t n = 0; n < whole.size(); n += 7) {
    s.folder.write("train-00000.tokens", whole.substr(0, n));
    EXPECT_NE(report_of([&] { s.open(); }).find(path), std::string::npos) << n;
  }
}

TEST(Loader, AFileThatIsCutShortOrVanishesDuringTheRunIsAnError) {
  const Shards s;
  const std::string path = s.folder / "train-00001.tokens";
  const auto loader = s.open();
  const auto read_all = [&] { fill(*loader, 0, loader->sequences(), 16); };
  EXPECT_NO_THROW(read_all());
  std::filesystem::resize_file(path, 200);
  EXPECT_NE(report_of(read_all).find(path), std::string::npos);

  const Shards other;
  const auto second = other.open();
  std::filesystem::remove(other.folder / "train-00002.tokens");
  EXPECT_NE(
      report_of([&] { fill(*second, 0, second->sequences(), 16); }).find("train-00002.tokens"),
      std::string::npos);
}

TEST(Loader, AMissingFileOrIndexIsAnErrorWithAHint) {
  const Shards s;
  std::filesystem::remove(s.folder / "train-00000.tokens");
  EXPECT_NE(report_of([&] { s.open(); }).find("lathe data"), std::string::npos);
  std::filesystem::remove(s.folder / "index.json");
  EXPECT_NE(report_of([&] { read_shards_info(s.folder.path()); }).find("lathe data"),
            std::string::npos);
  EXPECT_NE(report_of([&] { read_shards_info(s.folder / "none"); }), "");
}

TEST(Loader, EveryCutOfTheIndexIsAnError) {
  const Shards s(3);
  const std::string whole = read_file(s.folder / "index.json");
  for (std::size_t n = 0; n + 2 < whole.size(); n += 5) {
    s.folder.write("index.json", whole.substr(0, n));
    EXPECT_NE(report_of([&] { read_index(s.folder.path()); }), "") << n;
  }
}

TEST(Loader, AFolderThatCannotBeWrittenToCanBeRead) {
  const Shards s;
  faults::clear();
  faults::fail_any_after(0, EROFS, true);
  EXPECT_NO_THROW(s.open());
  faults::clear();
  EXPECT_FALSE(exists(s.folder / "train-00000.tokens.checked"));
}

}  // namespace
}  // namespace lathe::data
