#include "lathe/data/byte_source.h"

#include <fcntl.h>
#include <unistd.h>
#include <zconf.h>
#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"

namespace lathe::data {

namespace {

enum class Packing : u8 { none, gzip, zstd };

Packing packing_of(const std::string& path) {
  if (path.ends_with(".gz") || path.ends_with(".dz")) return Packing::gzip;
  return path.ends_with(".zst") ? Packing::zstd : Packing::none;
}

constexpr std::size_t kBuffer = std::size_t{1} << 18;

}  // namespace

/// The raw file, and whichever of the two unpackers it needs.
struct ByteSource::Impl {
  std::string path;
  Packing packing;
  int descriptor = -1;
  i64 consumed = 0;                   // of the file
  std::vector<u8> buffer;             // packed bytes
  std::size_t begin = 0, filled = 0;  // of the buffer: not yet unpacked
  bool at_end = false;                // of the file
  bool between = true;                // no packed stream is open: the file may end here
  z_stream gzip{};
  ZSTD_DStream* zstd = nullptr;

  explicit Impl(std::string p) : path(std::move(p)), packing(packing_of(path)) {
    if (is_folder(path)) throw Error("a folder cannot be read as text").at(path);
    descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) throw Error("cannot open file: {}", std::strerror(errno)).at(path);
    if (packing == Packing::none) return;
    buffer.resize(kBuffer);
    // 16 + 15: a gzip header, the largest window
    if (packing == Packing::gzip && inflateInit2(&gzip, 31) != Z_OK) throw std::bad_alloc();
    if (packing == Packing::zstd) zstd = ZSTD_createDStream();
    if (packing == Packing::zstd && !zstd) throw std::bad_alloc();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (packing == Packing::gzip) inflateEnd(&gzip);
    ZSTD_freeDStream(zstd);
    if (descriptor >= 0) close(descriptor);
  }

  std::size_t read_raw(void* out, std::size_t size) {
    ssize_t n = 0;
    do n = ::read(descriptor, out, size);
    while (n < 0 && errno == EINTR);
    if (n < 0) throw Error("cannot read at byte {}: {}", consumed, std::strerror(errno)).at(path);
    consumed += n;
    return static_cast<std::size_t>(n);
  }

  [[noreturn]] void damaged(const char* why) const {
    throw Error("packed file is damaged before byte {}: {}", offset(), why)
        .at(path)
        .hint("fetch or pack the file again, or leave it out");
  }
  /// Of the first packed byte not yet used.
  i64 offset() const { return consumed - static_cast<i64>(filled - begin); }

  /// Unpacks until there is something, or the file ends where a stream ends.
  std::size_t unpack(char* out, std::size_t size) {
    for (;;) {
      if (begin == filled && !at_end) {
        begin = 0;
        filled = read_raw(buffer.data(), buffer.size());
        at_end = filled == 0;
      }
      if (at_end && between) return 0;
      const std::size_t before = begin;
      const std::size_t n =
          packing == Packing::gzip ? unpack_gzip(out, size) : unpack_zstd(out, size);
      if (n > 0) return n;
      if (at_end && begin == before && !between)
        throw Error("packed file is cut short: it ends at byte {} within its packed data", consumed)
            .at(path)
            .hint("fetch or pack the file again, or leave it out");
    }
  }

  std::size_t unpack_gzip(char* out, std::size_t size) {
    // tapes and dictzip pad with zeros behind the last member
    if (between && offset() > 0 && begin < filled && buffer[begin] == 0) {
      ++begin;
      return 0;
    }
    between = false;
    gzip.next_in = buffer.data() + begin;
    gzip.avail_in = static_cast<uInt>(filled - begin);
    gzip.next_out = reinterpret_cast<Bytef*>(out);
    gzip.avail_out = static_cast<uInt>(size);
    const int status = inflate(&gzip, Z_NO_FLUSH);
    begin = filled - gzip.avail_in;
    if (status == Z_STREAM_END) {
      between = true;
      inflateReset(&gzip);
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      damaged(gzip.msg ? gzip.msg : "not gzip data");
    }
    return size - gzip.avail_out;
  }

  std::size_t unpack_zstd(char* out, std::size_t size) {
    ZSTD_inBuffer in{buffer.data(), filled, begin};
    ZSTD_outBuffer to{out, size, 0};
    const std::size_t status = ZSTD_decompressStream(zstd, &to, &in);
    begin = in.pos;
    if (ZSTD_isError(status)) damaged(ZSTD_getErrorName(status));
    between = status == 0;
    return to.pos;
  }
};

ByteSource::ByteSource(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
ByteSource::~ByteSource() = default;
ByteSource::ByteSource(ByteSource&&) noexcept = default;
ByteSource& ByteSource::operator=(ByteSource&&) noexcept = default;

std::size_t ByteSource::read(char* out, std::size_t size) {
  return impl_->packing == Packing::none ? impl_->read_raw(out, size) : impl_->unpack(out, size);
}

i64 ByteSource::consumed() const { return impl_->consumed; }

std::string unpacked_name(const std::string& path) {
  return packing_of(path) == Packing::none ? path : path.substr(0, path.rfind('.'));
}

}  // namespace lathe::data
