#include "lathe/base/file.h"

#include <asm-generic/errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "lathe/base/error.h"
#include "lathe/base/view.h"

namespace lathe {

namespace faults {
namespace {

struct Plan {
  std::mutex lock;
  bool armed = false, any = false, forever = false;
  Op op = Op::write;
  i64 skip = 0;
  int error_number = 0;
  i64 count = 0;
};

Plan& plan() {
  static Plan p;
  return p;
}

void arm(bool any, Op op, i64 skip, int error_number, bool forever) {
  Plan& p = plan();
  const std::scoped_lock hold(p.lock);
  p.armed = true;
  p.any = any;
  p.op = op;
  p.skip = skip;
  p.error_number = error_number;
  p.forever = forever;
}

/// Counts one operation; true with errno set when it must fail.
bool strikes(Op op) {
  Plan& p = plan();
  const std::scoped_lock hold(p.lock);
  ++p.count;
  if (!p.armed || (!p.any && p.op != op)) return false;
  if (p.skip > 0) {
    --p.skip;
    return false;
  }
  if (!p.forever) p.armed = false;
  errno = p.error_number;
  return true;
}

}  // namespace

void fail_after(Op op, i64 skip, int error_number, bool forever) {
  arm(false, op, skip, error_number, forever);
}
void fail_any_after(i64 skip, int error_number, bool forever) {
  arm(true, Op::write, skip, error_number, forever);
}
void clear() {
  Plan& p = plan();
  const std::scoped_lock hold(p.lock);
  p.armed = false;
  p.count = 0;
}
i64 count() {
  Plan& p = plan();
  const std::scoped_lock hold(p.lock);
  return p.count;
}

}  // namespace faults

namespace {

namespace fs = std::filesystem;

std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

/// "cannot read: No such file or directory", at the path, from errno.
Error failure(const std::string& what, const std::string& path, int error_number) {
  Error e("cannot {}: {}", what, std::strerror(error_number));
  e.at(path);
  if (error_number == ENOSPC || error_number == EDQUOT) {
    const i64 left = free_disk(path);
    if (left >= 0)
      e.hint("free some space: {} bytes are left on that disk for this user", left);
    else
      e.hint("free some space on that disk");
  } else if (error_number == EACCES || error_number == EPERM) {
    e.hint("check the permissions: ls -ld '{}'", path);
  } else if (error_number == EROFS) {
    e.hint("that disk can only be read: use a folder on another");
  }
  return e;
}

int open_for_reading(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw failure("read", path, errno);
  struct stat s{};
  if (fstat(fd, &s) == 0 && S_ISDIR(s.st_mode)) {
    close(fd);
    throw failure("read", path, EISDIR);
  }
  return fd;
}

/// Calls f(data, bytes) for each piece of the file.
template <class F>
void read_pieces(const std::string& path, const F& f) {
  const int fd = open_for_reading(path);
  const auto buffer = std::make_unique<std::array<char, 1 << 18>>();
  for (;;) {
    const ssize_t n = ::read(fd, buffer->data(), buffer->size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int e = errno;
      close(fd);
      throw failure("read", path, e);
    }
    if (n == 0) break;
    f(buffer->data(), static_cast<std::size_t>(n));
  }
  close(fd);
}

void write_all(int fd, const char* data, std::size_t bytes, const std::string& path) {
  while (bytes > 0) {
    ssize_t n = faults::strikes(faults::Op::write) ? -1 : ::write(fd, data, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw failure("write", path, errno);
    data += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void sync(int fd, const std::string& path) {
  if (faults::strikes(faults::Op::sync) || fsync(fd) != 0) throw failure("sync", path, errno);
}

/// False with errno set when it cannot be done.
bool renamed(const std::string& from, const std::string& to) {
  return !faults::strikes(faults::Op::rename) && std::rename(from.c_str(), to.c_str()) == 0;
}

}  // namespace

std::string read_file(const std::string& path) {
  std::string all;
  read_pieces(path, [&](const char* data, std::size_t n) { all.append(data, n); });
  return all;
}

std::optional<std::string> read_if_there(const std::string& path) {
  struct stat s{};
  if (stat(path.c_str(), &s) != 0 && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  return read_file(path);
}

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  const int fd = open_for_reading(path_);
  struct stat s{};
  if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode)) {
    close(fd);
    throw Error("cannot map what is not a regular file").at(path_);
  }
  size_ = s.st_size;
  if (size_ > 0) {
    void* p = mmap(nullptr, static_cast<std::size_t>(size_), PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
      const int e = errno;
      close(fd);
      throw failure("map", path_, e);
    }
    data_ = static_cast<const std::byte*>(p);
  }
  descriptor_ = fd;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_) munmap(const_cast<std::byte*>(data_), static_cast<std::size_t>(size_));
  if (descriptor_ >= 0) close(descriptor_);
}

void MappedFile::check_unchanged() const {
  struct stat open_now{}, named_now{};
  if (fstat(descriptor_, &open_now) != 0) throw failure("look at", path_, errno);
  if (open_now.st_size < size_)
    throw Error("the file was cut short while in use: {} of {} bytes are left", open_now.st_size,
                size_)
        .at(path_);
  if (stat(path_.c_str(), &named_now) != 0)
    throw Error("the file vanished while in use: {}", std::strerror(errno)).at(path_);
  if (named_now.st_size < size_)
    throw Error("the file was replaced while in use: {} of {} bytes are left", named_now.st_size,
                size_)
        .at(path_);
}

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::add(const void* data, std::size_t bytes) {
  XXH3_128bits_update(&state_->xxh, data, bytes);
}

std::string Hasher::hex() const {
  const XXH128_hash_t h = XXH3_128bits_digest(&state_->xxh);
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

std::string hash_hex(std::string_view bytes) {
  const XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

std::string hash_file(const std::string& path) {
  Hasher h;
  read_pieces(path, [&](const char* data, std::size_t n) { h.add(data, n); });
  return h.hex();
}

FileWriter::FileWriter(const std::string& path) : FileWriter(path, path) {}

FileWriter::FileWriter(std::string path, std::string meant)
    : path_(std::move(path)), meant_(std::move(meant)) {
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) throw failure("write", meant_, errno);
}

FileWriter::~FileWriter() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(path_.c_str());
}

void FileWriter::write(const void* data, std::size_t bytes) {
  constexpr std::size_t kBuffer = std::size_t{1} << 20;
  CHECK(descriptor_ >= 0, "{}: {} bytes written after finish", path_, bytes);
  hasher_.add(data, bytes);
  written_ += static_cast<i64>(bytes);
  if (buffer_.size() + bytes > kBuffer) flush();
  if (bytes > kBuffer)
    write_all(descriptor_, static_cast<const char*>(data), bytes, meant_);
  else
    buffer_.append(static_cast<const char*>(data), bytes);
}

void FileWriter::flush() {
  write_all(descriptor_, buffer_.data(), buffer_.size(), meant_);
  buffer_.clear();
}

void FileWriter::finish() {
  flush();
  sync(descriptor_, meant_);
  // A network disk may report its quota as late as here.
  if (close(std::exchange(descriptor_, -1)) != 0) {
    const int e = errno;
    unlink(path_.c_str());
    throw failure("close", meant_, e);
  }
}

void write_atomically(const std::string& path, std::string_view bytes) {
  const std::string temporary = fmt::format("{}.tmp-{}", path, getpid());
  FileWriter w(temporary, path);
  w.write(bytes);
  w.finish();
  if (!renamed(temporary, path)) {
    const int e = errno;
    unlink(temporary.c_str());
    throw failure("replace", path, e);
  }
  sync_folder(parent_of(path));
}

void remove_leftovers(const std::string& path) {
  const std::string begin = fs::path(path).filename().string() + ".tmp-";
  std::error_code e, ignored;
  const fs::directory_iterator end;
  for (fs::directory_iterator i(parent_of(path), e); !e && i != end; i.increment(e)) {
    const std::string name = i->path().filename().string();
    if (name.size() > begin.size() && name.starts_with(begin) &&
        name.find_first_not_of("0123456789", begin.size()) == std::string::npos)
      fs::remove(i->path(), ignored);
  }
}

void rename_durably(const std::string& from, const std::string& to) {
  if (!renamed(from, to)) throw failure(fmt::format("rename '{}'", from), to, errno);
  sync_folder(parent_of(to));
}

bool sync_data(int descriptor) noexcept {
  return !faults::strikes(faults::Op::sync) && fdatasync(descriptor) == 0;
}

void sync_folder(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw failure("open the folder", path, errno);
  try {
    sync(fd, path);
  } catch (const Error&) {
    close(fd);
    throw;
  }
  close(fd);
}

void make_folders(const std::string& path) {
  std::error_code e;
  fs::create_directories(path, e);
  if (e) throw failure("make the folder", path, e.value());
  if (!fs::is_directory(path)) throw failure("make the folder", path, ENOTDIR);
}

bool exists(const std::string& path) {
  std::error_code e;
  return fs::exists(path, e);
}

bool is_folder(const std::string& path) {
  std::error_code e;
  return fs::is_directory(path, e);
}

i64 free_disk(const std::string& path) {
  std::error_code e;
  fs::path p = fs::absolute(path, e);
  while (!p.empty() && p != p.parent_path() && !fs::exists(p, e)) p = p.parent_path();
  struct statvfs s{};
  if (statvfs(p.c_str(), &s) != 0) return -1;
  return static_cast<i64>(s.f_bavail) * static_cast<i64>(s.f_frsize);
}

}  // namespace lathe
