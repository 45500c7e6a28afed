#include "lathe/data/text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zconf.h>
#include <zlib.h>
#include <zstd.h>

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/base/error.h"
#include "tests/data/sample_text.h"
#include "tests/data/scratch_folder.h"

namespace lathe::data {
namespace {

std::string gzip(std::string_view bytes) {
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, bytes.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::string zstd(std::string_view bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3));
  return out;
}

/// The documents of a path, whole.
std::vector<std::string> documents(const std::string& path, BadUtf8 bad = BadUtf8::replace,
                                   TextReport* report = nullptr) {
  TextReader reader(find_files({path}, ""), bad);
  std::vector<std::string> all;
  Piece p;
  bool open = false;
  while (reader.next(p)) {
    EXPECT_EQ(p.first, !open);
    if (p.first) all.emplace_back();
    all.back() += p.text;
    open = !p.last;
  }
  EXPECT_FALSE(open);
  EXPECT_EQ(reader.report().documents, std::ssize(all));
  if (report) *report = reader.report();
  return all;
}

std::string report_of(const std::string& path, BadUtf8 bad = BadUtf8::replace) {
  try {
    documents(path, bad);
  } catch (const Error& e) {
    return e.report();
  }
  return "";
}

using Texts = std::vector<std::string>;

TEST(Text, AFolderIsReadInTheOrderOfNamesWithoutHiddenOnes) {
  const ScratchFolder f;
  f.write("b.txt", "second");
  f.write("a/z.rst", "first");
  f.write("c.md.gz", gzip("third"));
  f.write("d.zst", zstd("fourth"));
  f.write("e.jsonl.zst", zstd("{\"text\":\"fifth\"}\n"));
  f.write(".git/config", "hidden");
  f.write(".hidden", "hidden");
  f.write("empty.txt", "");
  EXPECT_EQ(documents(f.path()), (Texts{"first", "second", "third", "fourth", "fifth"}));
}

TEST(Text, TheFolderThatIsWrittenIsLeftOutAndNoFileIsReadTwice) {
  const ScratchFolder f;
  f.write("in/a.txt", "a");
  f.write("in/out/b.txt", "b");
  const auto files = find_files({f / "in", f / "in/a.txt", f / "in"}, f / "in/out");
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].name, "a.txt");
}

TEST(Text, LongDocumentsComeInPiecesThatJoin) {
  const ScratchFolder f;
  std::string text = sample_text(150000, 1);
  text += std::string(5 << 18, 'x') + "\xE2\x82\xAC" + sample_text(1000, 2);
  for (int shift = 0; shift < 3; ++shift) {  // characters fall differently on the reads
    EXPECT_EQ(documents(f.write("long.txt", text)), Texts{text});
    EXPECT_EQ(documents(f.write("long.txt.gz", gzip(text))), Texts{text});
    text.insert(0, 1, 'y');
  }
}

TEST(Text, JsonLinesAreDocumentsAndBlankLinesAreNot) {
  const ScratchFolder f;
  const std::string path = f.write(
      "a.jsonl",
      "{\"text\":\"one\\nline\",\"id\":1}\n\n  \r\n{\"text\":\"\"}\n{\"text\":\"\\u00e9\"}");
  EXPECT_EQ(documents(path), (Texts{"one\nline", "\xC3\xA9"}));
}

TEST(Text, ManyJsonLinesKeepTheirOrder) {
  const ScratchFolder f;
  std::string lines;
  Texts expected;
  for (int i = 0; i < 30000; ++i) {
    expected.push_back("document " + std::to_string(i * i));
    lines += "{\"text\":\"" + expected.back() + "\"}\n";
  }
  EXPECT_EQ(documents(f.write("a.jsonl.gz", gzip(lines))), expected);
}

TEST(Text, ABadJsonLineIsNamedByFileAndLine) {
  const ScratchFolder f;
  const std::string good = "{\"text\":\"a\"}\n";
  for (const char* bad : {"{\"text\":", "[1]", "{\"txt\":\"a\"}", "{\"text\":3}", "nonsense"}) {
    const std::string path = f.write("a.jsonl", fmt::format("{}\n{}\n{}", good, bad, good));
    EXPECT_NE(report_of(path).find(path + ":3"), std::string::npos) << bad;
  }
}

TEST(Text, BadBytesAreReplacedAndSaidWithTheirOffset) {
  const ScratchFolder f;
  const std::string path = f.write("a.txt",
                                   "ab\xFF"
                                   "cd\xE2\x82");
  TextReport report;
  EXPECT_EQ(documents(path, BadUtf8::replace, &report), Texts{"ab\xEF\xBF\xBD"
                                                              "cd\xEF\xBF\xBD"});
  EXPECT_EQ(report.bad_sequences, 2);
  EXPECT_EQ(report.bad_places, (Texts{path + ": byte 2", path + ": byte 5"}));
}

TEST(Text, OffsetsOfBadBytesCountTheWholeFile) {
  const ScratchFolder f;
  const std::string path = f.write("a.txt", "\xEF\xBB\xBF" + std::string(700000, 'a') + "\xFF");
  TextReport report;
  documents(path, BadUtf8::replace, &report);
  EXPECT_EQ(report.bad_places, Texts{path + ": byte 700003"});
  const std::string lines = f.write("b.jsonl", "{\"text\":\"a\"}\n{\"text\":\"\xFF\"}\n");
  EXPECT_EQ(documents(lines, BadUtf8::replace, &report), (Texts{"a", "\xEF\xBF\xBD"}));
  EXPECT_EQ(report.bad_places, Texts{lines + ": byte 22"});
}

TEST(Text, BadBytesAreRefusedOrSkippedByChoice) {
  const ScratchFolder f;
  const std::string path = f.write("a.txt",
                                   "ab\xFF"
                                   "cd");
  f.write("b.txt", "good");
  f.write("c.jsonl", "{\"text\":\"\xC0\"}\n{\"text\":\"fine\"}\n");
  const std::string refused = report_of(f.path(), BadUtf8::refuse);
  EXPECT_NE(refused.find(path), std::string::npos);
  EXPECT_NE(refused.find("byte 2"), std::string::npos);
  TextReport report;
  EXPECT_EQ(documents(f.path(), BadUtf8::skip, &report), (Texts{"good", "fine"}));
  EXPECT_EQ(report.skipped_documents, 2);
}

TEST(Text, BinaryFilesAreLeftOutAndCounted) {
  const ScratchFolder f;
  f.write("a.txt", "text");
  f.write("b.bin", std::string("\x7F"
                               "ELF\0\0",
                               6));
  f.write("c.gz", gzip(std::string("\0\1", 2)));
  for (const BadUtf8 bad : {BadUtf8::replace, BadUtf8::skip}) {
    TextReport report;
    EXPECT_EQ(documents(f.path(), bad, &report), Texts{"text"});
    EXPECT_EQ(report.binary_files, 2);
    EXPECT_EQ(report.bad_sequences, 0);
  }
}

TEST(Text, EveryCutOfAPackedFileIsAnErrorThatNamesIt) {
  const ScratchFolder f;
  const std::string text = sample_text(300, 1);
  for (const auto& [name, packed] : {std::pair{"a.gz", gzip(text)}, {"a.zst", zstd(text)}})
    for (std::size_t n = 1; n < packed.size(); n += 1 + packed.size() / 80) {
      const std::string path = f.write(name, packed.substr(0, n));
      const std::string report = report_of(path);
      EXPECT_NE(report.find(path), std::string::npos) << name << " cut to " << n;
      EXPECT_NE(report.find("byte"), std::string::npos) << report;
    }
}

TEST(Text, PackedFilesMayHaveSeveralMembersAndZerosBehind) {
  const ScratchFolder f;
  EXPECT_EQ(documents(f.write("a.gz", gzip("one ") + gzip("two") + std::string(512, '\0'))),
            Texts{"one two"});
  EXPECT_EQ(documents(f.write("a.zst", zstd("one ") + zstd("two"))), Texts{"one two"});
  EXPECT_NE(report_of(f.write("b.gz", gzip("one") + "garbage")), "");
  EXPECT_NE(report_of(f.write("c.gz", "plain text")), "");
  EXPECT_NE(report_of(f.write("c.zst", "plain text")), "");
}

TEST(Text, AMissingPathIsAnError) { EXPECT_NE(report_of("/nonexistent/x"), ""); }

TEST(Text, ASafeCutIsBehindALoneLineEnd) {
  EXPECT_EQ(safe_cut("ab\ncd", 0), 3u);
  EXPECT_EQ(safe_cut("ab\n\ncd\nef", 0), 7u);
  EXPECT_EQ(safe_cut("ab \ncd\n\xC3\xA9", 0), 9u);
  EXPECT_EQ(safe_cut("ab\n", 0), 3u);
  EXPECT_EQ(safe_cut("ab", 2), 2u);
}

}  // namespace
}  // namespace lathe::data
