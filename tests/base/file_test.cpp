#include "lathe/base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "tests/support/temporary_folder.h"

namespace lathe {
namespace {

using testing_support::TemporaryFolder;

/// Names in a folder.
std::vector<std::string> names(const std::string& folder) {
  std::vector<std::string> n;
  for (const auto& e : std::filesystem::directory_iterator(folder))
    n.push_back(e.path().filename().string());
  return n;
}

class Faults : public testing::Test {
 protected:
  void SetUp() override { faults::clear(); }
  void TearDown() override { faults::clear(); }
};

TEST(File, AWrittenFileReadsBackTheSame) {
  const TemporaryFolder dir;
  std::string bytes;
  for (int i = 0; i < 3'000'000; ++i) bytes += static_cast<char>(i * 7 + i / 251);
  write_atomically(dir / "a", bytes);
  EXPECT_EQ(read_file(dir / "a"), bytes);
  EXPECT_EQ(MappedFile(dir / "a").text(), bytes);
  EXPECT_EQ(names(dir.path()), std::vector<std::string>{"a"});
}

TEST(File, ReplacingLeavesNothingOfTheOldBytes) {
  const TemporaryFolder dir;
  write_atomically(dir / "a", "something long");
  write_atomically(dir / "a", "x");
  EXPECT_EQ(read_file(dir / "a"), "x");
}

TEST(File, AnEmptyFileIsReadAndMapped) {
  const TemporaryFolder dir;
  write_atomically(dir / "a", "");
  EXPECT_EQ(read_file(dir / "a"), "");
  EXPECT_EQ(MappedFile(dir / "a").size(), 0);
}

TEST(File, AMissingFileAndAFolderAreErrorsThatNameThePath) {
  const TemporaryFolder dir;
  for (const std::string& path : {dir / "none", dir.path()}) {
    for (const bool mapped : {false, true}) {
      try {
        if (mapped)
          MappedFile m(path);
        else
          read_file(path);
        ADD_FAILURE() << path;
      } catch (const Error& e) {
        EXPECT_EQ(e.where(), path);
      }
    }
  }
}

TEST(File, OnlyAFileThatIsNotThereIsReadAsNothing) {
  const TemporaryFolder dir;
  write_atomically(dir / "a", "x");
  EXPECT_EQ(read_if_there(dir / "a"), "x");
  EXPECT_EQ(read_if_there(dir / "none"), std::nullopt);
  EXPECT_EQ(read_if_there(dir / "a/under-a-file"), std::nullopt);
  ASSERT_EQ(symlink("loop", (dir / "loop").c_str()), 0);
  EXPECT_THROW(read_if_there(dir / "loop"), Error);
  EXPECT_THROW(read_if_there(dir.path()), Error);
}

TEST(File, LeftoversOfReplacingAreRemovedAndNothingElse) {
  const TemporaryFolder dir;
  for (const char* name : {"a", "a.tmp-12", "a.tmp-", "a.tmp-x1", "b.tmp-12"})
    write_atomically(dir / name, "");
  remove_leftovers(dir / "a");
  remove_leftovers(dir / "none/a");
  std::vector<std::string> left = names(dir.path());
  std::sort(left.begin(), left.end());
  EXPECT_EQ(left, std::vector<std::string>({"a", "a.tmp-", "a.tmp-x1", "b.tmp-12"}));
}

TEST(File, AFileThatCannotBeWrittenIsAnErrorThatNamesThePath) {
  const TemporaryFolder dir;
  try {
    FileWriter w(dir / "none/a");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.where(), dir / "none/a");
  }
}

// The published value for no input at all, high half first.
TEST(Hash, OfNothingIsThatOfTheSpecification) {
  EXPECT_EQ(hash_hex(""), "99aa06d3014798d86001c324468d497f");
}

TEST(Hash, IsTheSameWholeStreamedAndFromTheFile) {
  const TemporaryFolder dir;
  std::string bytes;
  for (int i = 0; i < 2'500'000; ++i) bytes += static_cast<char>(i ^ (i >> 8));
  FileWriter w(dir / "a");
  for (std::size_t begin = 0, step = 1; begin < bytes.size(); begin += step, step = step * 3 + 1)
    w.write(std::string_view(bytes).substr(begin, step));
  w.finish();
  EXPECT_EQ(w.written(), static_cast<i64>(bytes.size()));
  EXPECT_EQ(w.hash(), hash_hex(bytes));
  EXPECT_EQ(hash_file(dir / "a"), hash_hex(bytes));
  EXPECT_EQ(read_file(dir / "a"), bytes);
}

TEST(File, AWriterThatDiesEarlyRemovesItsFile) {
  const TemporaryFolder dir;
  {
    FileWriter w(dir / "a");
    w.write("half of it");
  }
  EXPECT_FALSE(exists(dir / "a"));
}

TEST(File, AMapTellsThatItsFileWasCutShortOrVanished) {
  const TemporaryFolder dir;
  write_atomically(dir / "a", "0123456789");
  const MappedFile m(dir / "a");
  EXPECT_NO_THROW(m.check_unchanged());
  ASSERT_EQ(truncate((dir / "a").c_str(), 4), 0);
  EXPECT_THROW(m.check_unchanged(), Error);
  ASSERT_EQ(truncate((dir / "a").c_str(), 10), 0);
  EXPECT_NO_THROW(m.check_unchanged());
  ASSERT_EQ(unlink((dir / "a").c_str()), 0);
  EXPECT_THROW(m.check_unchanged(), Error);
}

TEST(File, FoldersAreMadeWithThoseAboveThem) {
  const TemporaryFolder dir;
  make_folders(dir / "a/b/c");
  EXPECT_TRUE(is_folder(dir / "a/b/c"));
  EXPECT_NO_THROW(make_folders(dir / "a/b/c"));
  write_atomically(dir / "f", "");
  EXPECT_THROW(make_folders(dir / "f"), Error);
  EXPECT_THROW(make_folders(dir / "f/g"), Error);
}

TEST(File, FreeDiskIsToldForAPathThatDoesNotExistYet) {
  const TemporaryFolder dir;
  EXPECT_GT(free_disk(dir / "not/yet/there"), 0);
}

TEST_F(Faults, WhereverReplacingFailsTheOldOrTheNewFileStands) {
  const TemporaryFolder dir;
  write_atomically(dir / "a", "old");
  faults::clear();
  write_atomically(dir / "a", "old");
  const i64 operations = faults::count();
  ASSERT_GE(operations, 4);  // write, sync, rename, sync of the folder
  for (i64 n = 0; n < operations; ++n) {
    faults::clear();
    write_atomically(dir / "a", "old");
    faults::fail_any_after(n, EIO);
    EXPECT_THROW(write_atomically(dir / "a", "new"), Error) << n;
    const std::string now = read_file(dir / "a");
    EXPECT_EQ(now, n < operations - 1 ? "old" : "new") << n;
    EXPECT_EQ(names(dir.path()), std::vector<std::string>{"a"}) << n;
  }
}

TEST_F(Faults, AFullDiskNamesThePathAndTheSpaceLeft) {
  const TemporaryFolder dir;
  faults::fail_after(faults::Op::write, 0, ENOSPC);
  try {
    write_atomically(dir / "a", "x");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(e.where().find(dir / "a"), std::string::npos);
    EXPECT_NE(e.hint().find("bytes are left"), std::string::npos) << e.hint();
  }
}

TEST_F(Faults, WhatFailsInReplacingNamesTheFileMeantAndNotTheOneBesideIt) {
  const TemporaryFolder dir;
  write_atomically(dir / "a", "old");
  for (const auto op : {faults::Op::write, faults::Op::sync, faults::Op::rename})
    for (const int number : {ENOSPC, EIO, EACCES, EROFS}) {
      faults::fail_after(op, 0, number);
      try {
        write_atomically(dir / "a", "new");
        ADD_FAILURE();
      } catch (const Error& e) {
        EXPECT_EQ(e.where(), dir / "a");
        EXPECT_EQ(e.report().find(".tmp-"), std::string::npos) << e.report();
        EXPECT_EQ(e.hint().empty(), number == EIO) << e.report();
      }
    }
  EXPECT_EQ(read_file(dir / "a"), "old");
  try {
    write_atomically(dir / "none/b", "x");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.where(), dir / "none/b");
  }
}

TEST_F(Faults, OnlyTheChosenKindFailsAndOnlyOnceUnlessForever) {
  const TemporaryFolder dir;
  faults::fail_after(faults::Op::rename, 1, EIO);
  EXPECT_NO_THROW(write_atomically(dir / "a", "1"));
  EXPECT_THROW(write_atomically(dir / "a", "2"), Error);
  EXPECT_NO_THROW(write_atomically(dir / "a", "3"));
  faults::fail_after(faults::Op::sync, 0, EIO, true);
  EXPECT_THROW(write_atomically(dir / "a", "4"), Error);
  EXPECT_THROW(write_atomically(dir / "a", "5"), Error);
  EXPECT_EQ(read_file(dir / "a"), "3");
}

TEST(File, ARealFullDiskIsAnError) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "this machine has no /dev/full";
  // /dev/full is opened directly: a writer that dies removes its file, so it gets a link of its
  // own.
  const TemporaryFolder dir;
  ASSERT_EQ(symlink("/dev/full", (dir / "a").c_str()), 0);
  FileWriter w(dir / "a");
  w.write("x");
  EXPECT_THROW(w.finish(), Error);
}

}  // namespace
}  // namespace lathe
