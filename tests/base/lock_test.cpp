#include "lathe/base/lock.h"

#include <gtest/gtest.h>

#include <string>

#include "lathe/base/error.h"
#include "tests/support/temporary_folder.h"

namespace lathe {
namespace {

TEST(FolderLock, IsHeldByOneAtATimeAndLetGoAtTheEnd) {
  const testing_support::TemporaryFolder folder;
  {
    const FolderLock first(folder / "lock", "training in this folder", "wait for it");
    try {
      const FolderLock second(folder / "lock", "training in this folder", "wait for it");
      FAIL() << "no Error";
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()), "another process is training in this folder");
      EXPECT_EQ(e.hint(), "wait for it");
    }
  }
  EXPECT_NO_THROW(FolderLock(folder / "lock", "training", ""));
}

TEST(FolderLock, SaysWhenItsFileCannotBeMade) {
  const testing_support::TemporaryFolder folder;
  try {
    const FolderLock lock(folder / "missing/lock", "training", "");
    FAIL() << "no Error";
  } catch (const Error& e) {
    EXPECT_EQ(e.where(), folder / "missing/lock");
    EXPECT_NE(e.hint().find(folder / "missing"), std::string::npos) << e.hint();
  }
}

}  // namespace
}  // namespace lathe
