#include "lathe/train/events.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "tests/support/temporary_folder.h"

namespace lathe::train {
namespace {

using testing_support::TemporaryFolder;

u32 unmasked(u32 m) { return std::rotl(m - 0xA282EAD8u, 15); }

/// The payloads of a file of TFRecords, every checksum verified.
std::vector<std::string> records(const std::string& path) {
  const std::string bytes = read_file(path);
  std::vector<std::string> all;
  for (std::size_t at = 0; at < bytes.size();) {
    u64 length;
    u32 crc;
    std::memcpy(&length, &bytes[at], 8);
    std::memcpy(&crc, &bytes[at + 8], 4);
    EXPECT_EQ(unmasked(crc), crc32c(std::string_view(bytes).substr(at, 8)));
    all.push_back(bytes.substr(at + 12, length));
    std::memcpy(&crc, &bytes[at + 12 + length], 4);
    EXPECT_EQ(unmasked(crc), crc32c(all.back()));
    at += 16 + length;
  }
  return all;
}

TEST(Crc32c, AgreesWithThePublishedVectors) {
  // RFC 3720, appendix B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
}

TEST(EventFile, BeginsWithItsVersionAndTheStartOfTheSession) {
  const TemporaryFolder folder;
  std::string path;
  {
    const EventFile e(folder.path(), 40);
    path = e.path();
  }
  const auto all = records(path);
  ASSERT_EQ(all.size(), 2u);
  // wall_time (field 1, 8 bytes), then file_version (field 3).
  EXPECT_EQ(all[0].substr(9), std::string("\x1a\x0d") + "brain.Event:2");
  // step 41 (field 2), session_log (field 7) {status (1) = START (1)}.
  EXPECT_EQ(all[1].substr(9), std::string("\x10\x29\x3a\x02\x08\x01"));
}

TEST(EventFile, EncodesScalarsAsTheProtocolSays) {
  const TemporaryFolder folder;
  std::string path;
  {
    EventFile e(folder.path(), 0);
    e.add(300, {{"a/b", 1.5}});
    path = e.path();
  }
  const auto all = records(path);
  ASSERT_EQ(all.size(), 3u);
  // step 300 = ac 02; summary (5) {value (1) {tag (1) "a/b", simple_value (2) 1.5f}}.
  const std::string value =
      std::string("\x0a\x03") + "a/b" + std::string("\x15\x00\x00\xc0\x3f", 5);
  EXPECT_EQ(all[2].substr(9), std::string("\x10\xac\x02\x2a\x0c\x0a\x0a") + value);
}

TEST(EventFile, OfASecondStartDoesNotOverwriteTheFirst) {
  const TemporaryFolder folder;
  const EventFile a(folder.path(), 0), b(folder.path(), 0);
  EXPECT_NE(a.path(), b.path());
}

TEST(EventFile, SaysWhereItCannotBeWritten) {
  const TemporaryFolder folder;
  EXPECT_THROW(EventFile(folder / "absent", 0), Error);
}

}  // namespace
}  // namespace lathe::train
