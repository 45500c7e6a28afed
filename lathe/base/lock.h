#pragma once
// One process at a time in a folder.

#include <string>

namespace lathe {

/// A lock on a file of its own, made where there is none, held for as long as this lives. Several
/// calls in one process exclude one another too.
class FolderLock {
 public:
  /// `doing` completes "another process is …". Throws Error when somebody holds it, or when the
  /// file cannot be made; a file system without locks is no reason to stop.
  FolderLock(const std::string& path, const std::string& doing, const std::string& hint);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace lathe
