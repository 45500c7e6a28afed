#include "lathe/data/ingest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/data/loader.h"
#include "lathe/data/shards_index.h"
#include "lathe/data/tokenizer.h"
#include "lathe/data/tokens.h"
#include "tests/data/sample_text.h"
#include "tests/data/scratch_folder.h"

namespace lathe::data {
namespace {

IngestOptions options(const ScratchFolder& f, i64 documents = 40) {
  for (i64 i = 0; i < documents; ++i)
    f.write("in/" + std::to_string(1000 + i) + ".txt", sample_text(60, static_cast<u64>(i)));
  IngestOptions o;
  o.paths = {f / "in"};
  o.out = f / "out";
  o.vocab = 400;
  o.held_out = 0.1;
  return o;
}

std::vector<i32> tokens_of(const std::string& folder, const ShardsIndex::Part& part) {
  std::vector<i32> all;
  for (const TokensEntry& e : part.files) {
    const TokensFile file(folder + "/" + e.file);
    std::vector<i32> ids(static_cast<std::size_t>(file.tokens()));
    file.read(0, file.tokens(), ids.data());
    all.insert(all.end(), ids.begin(), ids.end());
  }
  return all;
}

/// The documents of a part, decoded.
std::vector<std::string> documents_of(const std::string& folder, bool held_out) {
  const ShardsIndex x = read_index(folder);
  const Tokenizer t = Tokenizer::load(folder + "/" + x.tokenizer_file);
  std::vector<std::string> texts;
  const std::vector<i32> ids = tokens_of(folder, held_out ? x.held_out : x.train);
  EXPECT_TRUE(ids.empty() || (ids.front() == t.end_of_text() && ids.back() == t.end_of_text()));
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    if (ids[i] == t.end_of_text())
      texts.emplace_back();
    else
      texts.back() += t.bytes(ids[i]);
  }
  return texts;
}

std::string contents(const std::string& folder) {
  std::string all;
  std::vector<std::string> paths;
  for (const auto& e : std::filesystem::recursive_directory_iterator(folder))
    paths.push_back(e.path());
  std::ranges::sort(paths);
  for (const auto& p : paths)
    if (!p.ends_with(".checked")) all += p.substr(folder.size()) + "\n" + read_file(p);
  return all;
}

std::string report_of(const IngestOptions& o) {
  try {
    ingest(o);
  } catch (const Error& e) {
    return e.report();
  }
  return "";
}

TEST(Ingest, EveryDocumentIsInOneOfTheTwoPartsInOrder) {
  const ScratchFolder f;
  const IngestOptions o = options(f);
  const IngestResult r = ingest(o);
  const auto train = documents_of(o.out, false), held = documents_of(o.out, true);
  EXPECT_EQ(r.documents, 40);
  EXPECT_EQ(std::ssize(held), r.held_out_documents);
  ASSERT_GT(held.size(), 0u);
  std::size_t t = 0, h = 0;
  for (i64 i = 0; i < 40; ++i) {
    const std::string text = sample_text(60, static_cast<u64>(i));
    if (t < train.size() && train[t] == text)
      ++t;
    else if (h < held.size() && held[h] == text)
      ++h;
    else
      ADD_FAILURE() << "document " << i << " is lost or out of order";
  }
  EXPECT_EQ(t, train.size());
  EXPECT_EQ(h, held.size());
}

TEST(Ingest, TheSameBytesComeOutForAnyNumberOfThreads) {
  const ScratchFolder f;
  IngestOptions o = options(f);
  f.write("in/long.txt", sample_text(200000, 99));
  ingest(o);
  const std::string one = contents(o.out);
  for (const int threads : {2, 4}) {
    o.threads = threads;
    o.force = true;
    ingest(o);
    EXPECT_EQ(contents(o.out), one) << threads;
  }
}

TEST(Ingest, TheEndOfALoneDocumentIsHeldOut) {
  const ScratchFolder f;
  IngestOptions o = options(f, 0);
  const std::string text = sample_text(2000, 5);
  o.paths = {f.write("book.txt", text)};
  o.held_out = 0.05;
  ingest(o);
  const auto train = documents_of(o.out, false), held = documents_of(o.out, true);
  ASSERT_EQ(train.size(), 1u);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(train[0] + held[0], text);
  // a twentieth, up to a line end or 4096 bytes later
  EXPECT_LE(held[0].size(), text.size() / 20 + 1);
  EXPECT_GE(held[0].size() + 4096, text.size() / 20);
}

TEST(Ingest, NothingIsHeldOutWhenNothingIsAskedFor) {
  const ScratchFolder f;
  IngestOptions o = options(f, 3);
  o.held_out = 0;
  const IngestResult r = ingest(o);
  EXPECT_EQ(r.held_out_tokens, 0);
  EXPECT_THROW(Loader(o.out, Loader::Part::held_out, 8, 400, 1), Error);
}

TEST(Ingest, AFinishedFolderIsReusedAndAnotherOneIsNotWrittenOver) {
  const ScratchFolder f;
  IngestOptions o = options(f);
  EXPECT_FALSE(ingest(o).reused);
  const std::string before = contents(o.out);
  EXPECT_TRUE(ingest(o).reused);
  // the same text under a new time
  f.write("in/1000.txt", sample_text(60, 0));
  std::filesystem::last_write_time(
      f / "in/1000.txt", std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_TRUE(ingest(o).reused);
  o.vocab = 300;
  EXPECT_NE(report_of(o).find("--force"), std::string::npos);
  o.vocab = 400;
  f.write("in/1000.txt", "another text");
  EXPECT_NE(report_of(o).find("--force"), std::string::npos);
  EXPECT_EQ(contents(o.out), before);
  o.force = true;
  EXPECT_FALSE(ingest(o).reused);
  EXPECT_NE(contents(o.out), before);
}

TEST(Ingest, ARunThatFailsAnywhereLeavesNothingThatOpens) {
  const ScratchFolder f;
  IngestOptions o = options(f, 5);
  faults::clear();
  ingest(o);
  const i64 operations = faults::count();
  ASSERT_GT(operations, 6);
  const std::string whole = contents(o.out);
  o.force = true;
  for (i64 n = 0; n < operations; ++n) {
    faults::clear();
    faults::fail_any_after(n, ENOSPC, true);
    const bool failed = !report_of(o).empty();
    faults::clear();
    EXPECT_TRUE(failed) << n;
    // the last operations make the finished index durable: both outcomes are whole
    bool opens = true;
    try {
      read_shards_info(o.out);
    } catch (const Error&) {
      opens = false;
    }
    if (opens) {
      EXPECT_EQ(contents(o.out), whole) << n;
      EXPECT_GE(n, operations - 2);
    }
    std::filesystem::remove(o.out + "/index.json");
    o.force = n % 2 == 0;  // leftovers are no obstacle either way
  }
  faults::clear();
  o.force = false;
  ingest(o);
  EXPECT_EQ(contents(o.out), whole);
}

TEST(Ingest, AnExistingTokenizerIsUsedAsItIs) {
  const ScratchFolder f;
  IngestOptions o = options(f);
  ingest(o);
  const std::string hash = read_shards_info(o.out).tokenizer_hash;
  o.tokenizer = o.out + "/tokenizer.json";
  o.out = f / "other";
  ingest(o);
  EXPECT_EQ(read_shards_info(o.out).tokenizer_hash, hash);
  EXPECT_EQ(read_file(o.out + "/tokenizer.json"), read_file(o.tokenizer));
}

TEST(Ingest, WhatCannotWorkIsSaid) {
  const ScratchFolder f;
  IngestOptions o = options(f, 1);
  o.vocab = 100;
  EXPECT_NE(report_of(o).find("257"), std::string::npos);
  o.vocab = 300;
  o.held_out = 0.9;
  EXPECT_NE(report_of(o), "");
  o.held_out = 0.1;
  std::filesystem::create_directory(f / "none");
  o.paths = {f / "none"};
  EXPECT_NE(report_of(o).find("no files"), std::string::npos);
  f.write("none/a.bin", std::string("\0\0", 2));
  EXPECT_NE(report_of(o).find("a.bin"), std::string::npos);
  f.write("none/a.bin", "");
  EXPECT_NE(report_of(o).find("no text"), std::string::npos);
  o.paths = {f / "in"};
  o.out = f.write("file", "x");
  EXPECT_NE(report_of(o), "");
}

}  // namespace
}  // namespace lathe::data
