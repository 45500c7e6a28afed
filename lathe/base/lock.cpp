#include "lathe/base/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>

#include "lathe/base/error.h"

namespace lathe {

FolderLock::FolderLock(const std::string& path, const std::string& doing, const std::string& hint)
    : descriptor_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0)
    throw Error("cannot make the lock file: {}", std::strerror(errno))
        .at(path)
        .hint("use a folder that you may write to: ls -ld '{}'",
              std::filesystem::path(path).parent_path().string());
  if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  close(descriptor_);
  throw Error("another process is {}", doing).at(path).hint("{}", hint);
}

FolderLock::~FolderLock() { close(descriptor_); }

}  // namespace lathe
