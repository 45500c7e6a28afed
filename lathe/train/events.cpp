#include "lathe/train/events.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"

namespace lathe::train {
namespace {

constexpr std::array<u32, 256> crc_table() {
  std::array<u32, 256> table{};
  for (u32 i = 0; i < 256; ++i) {
    u32 c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) ? 0x82F63B78u : 0u);
    table[i] = c;
  }
  return table;
}

/// As TFRecords store it, so that a CRC of data that holds CRCs is still one.
u32 masked(u32 crc) { return std::rotr(crc, 15) + 0xA282EAD8u; }

/// A protobuf message under construction (protobuf.dev, "Encoding").
struct Message {
  std::string bytes;

  void varint(u64 v) {
    for (; v >= 0x80; v >>= 7) bytes += static_cast<char>(v | 0x80);
    bytes += static_cast<char>(v);
  }
  void key(u32 field, u32 wire) { varint(u64{field} << 3 | wire); }
  template <class T>
  void raw(T v) {
    char b[sizeof v];
    std::memcpy(b, &v, sizeof v);
    bytes.append(b, sizeof v);
  }
  void integer(u32 field, i64 v) { key(field, 0), varint(static_cast<u64>(v)); }
  void real(u32 field, double v) { key(field, 1), raw(v); }
  void real(u32 field, float v) { key(field, 5), raw(v); }
  void text(u32 field, std::string_view s) { key(field, 2), varint(s.size()), bytes += s; }
};

double now() {
  using std::chrono::system_clock, std::chrono::duration;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

/// Event: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7.
Message event(i64 step) {
  Message m;
  m.real(1, now());
  if (step != 0) m.integer(2, step);
  return m;
}

/// Summary: value = 1. Value: tag = 1, simple_value = 2, tensor = 8, metadata = 9.
void add_value(Message& summary, const Message& value) { summary.text(1, value.bytes); }

}  // namespace

u32 crc32c(std::string_view bytes) {
  static constexpr std::array<u32, 256> kTable = crc_table();
  u32 c = 0xFFFFFFFFu;
  for (const char b : bytes) c = (c >> 8) ^ kTable[(c ^ static_cast<u8>(b)) & 0xFF];
  return c ^ 0xFFFFFFFFu;
}

EventFile::EventFile(const std::string& folder, i64 step) {
  char host[256] = "localhost";
  gethostname(host, sizeof host - 1);
  const auto seconds = static_cast<i64>(now());
  // A second start within the same second by the same process must not write over the first.
  for (int serial = 0; path_.empty() || exists(path_); ++serial)
    path_ = fmt::format("{}/events.out.tfevents.{:010}.{}.{}.{}", folder, seconds, host, getpid(),
                        serial);
  file_ = std::fopen(path_.c_str(), "wbe");
  if (!file_) throw Error("cannot write events: {}", std::strerror(errno)).at(path_);

  Message version = event(0);
  version.text(3, "brain.Event:2");
  record(version.bytes);
  // SessionLog: status = 1, START = 1. Readers drop what they hold from this step on.
  Message log, start = event(step + 1);
  log.integer(1, 1);
  start.text(7, log.bytes);
  record(start.bytes);
}

EventFile::~EventFile() { std::fclose(file_); }

void EventFile::add(i64 step, const std::vector<std::pair<std::string, double>>& scalars) {
  Message summary, e = event(step);
  for (const auto& [tag, value] : scalars) {
    Message v;
    v.text(1, tag);
    v.real(2, static_cast<float>(value));
    add_value(summary, v);
  }
  e.text(5, summary.bytes);
  record(e.bytes);
}

void EventFile::add_text(i64 step, std::string_view tag, std::string_view text) {
  // SummaryMetadata: plugin_data = 1. PluginData: plugin_name = 1.
  Message plugin, metadata;
  plugin.text(1, "text");
  metadata.text(1, plugin.bytes);
  // TensorProto: dtype = 1 (DT_STRING = 7), tensor_shape = 2 (one dim = 2 of size = 1), string_val
  // = 8.
  Message dim, shape, tensor;
  dim.integer(1, 1);
  shape.text(2, dim.bytes);
  tensor.integer(1, 7);
  tensor.text(2, shape.bytes);
  tensor.text(8, text);
  Message value, summary, e = event(step);
  value.text(1, tag);
  value.text(8, tensor.bytes);
  value.text(9, metadata.bytes);
  add_value(summary, value);
  e.text(5, summary.bytes);
  record(e.bytes);
}

void EventFile::record(std::string_view payload) {
  Message frame;
  frame.raw(u64{payload.size()});
  frame.raw(masked(crc32c(frame.bytes)));
  frame.bytes += payload;
  frame.raw(masked(crc32c(payload)));
  std::fwrite(frame.bytes.data(), 1, frame.bytes.size(), file_);
  std::fflush(file_);
}

}  // namespace lathe::train
