#include "lathe/train/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"

namespace lathe::train {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "files hold little-endian numbers");

constexpr i64 kMaxHeader = 100'000'000;  // the format's own cap
constexpr i64 kLengthBytes = 8;

struct TypeName {
  DType type;
  const char* name;
};
constexpr std::array kTypes{TypeName{DType::f64, "F64"}, TypeName{DType::f32, "F32"},
                            TypeName{DType::bf16, "BF16"}, TypeName{DType::int32, "I32"},
                            TypeName{DType::uint8, "U8"}};

const char* name_of(DType t) {
  return std::find_if(kTypes.begin(), kTypes.end(), [t](const TypeName& n) { return n.type == t; })
      ->name;
}

/// Parses the header, refusing names that occur twice, which a plain parse would merge.
Json parse_header(std::string_view text, const std::string& path) {
  std::set<std::string> names;
  std::string twice;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::key && depth == 1 &&
        !names.insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  Json header;
  try {
    header = Json::parse(text, watch);
  } catch (const Json::exception& e) {
    throw Error("the header is not JSON: {}", e.what()).at(path);
  }
  if (!header.is_object()) throw Error("the header is not a JSON object").at(path);
  if (!twice.empty()) throw Error("the header names tensor '{}' twice", twice).at(path);
  return header;
}

std::optional<i64> whole(const Json& j) {
  if (!j.is_number_unsigned() || j.get<u64>() > (u64{1} << 62)) return std::nullopt;
  return static_cast<i64>(j.get<u64>());
}

/// Reads one row of the header. `room` is the number of bytes that hold tensors.
SafeTensors::Entry parse_entry(const std::string& name, const Json& j, i64 room,
                               const std::string& path) {
  const auto bad = [&](const char* why) { return Error("tensor '{}': {}", name, why).at(path); };
  if (!j.is_object() || j.size() != 3 || !j.contains("dtype") || !j.contains("shape") ||
      !j.contains("data_offsets"))
    throw bad("its row does not hold exactly dtype, shape and data_offsets");
  const auto type = std::find_if(kTypes.begin(), kTypes.end(),
                                 [&](const TypeName& n) { return j["dtype"] == n.name; });
  if (type == kTypes.end()) throw bad("its dtype is none of F64, F32, BF16, I32, U8");

  SafeTensors::Entry e{.type = type->type, .shape = {}, .begin = 0, .end = 0};
  if (!j["shape"].is_array()) throw bad("its shape is not a list");
  i64 bytes = size_of(e.type);
  for (const Json& d : j["shape"]) {
    const std::optional<i64> dim = whole(d);
    if (!dim) throw bad("its shape holds something that is not a size");
    if (__builtin_mul_overflow(bytes, *dim, &bytes)) throw bad("its shape is too large");
    e.shape.push_back(*dim);
  }
  const Json& at = j["data_offsets"];
  if (!at.is_array() || at.size() != 2 || !whole(at[0]) || !whole(at[1]))
    throw bad("its data_offsets are not two offsets");
  e.begin = *whole(at[0]);
  e.end = *whole(at[1]);
  if (e.begin > e.end || e.end > room) throw bad("its bytes lie outside the file");
  if (e.end - e.begin != bytes) throw bad("its bytes are not as many as its shape asks for");
  return e;
}

/// Tensors must follow one another without a gap or an overlap and fill the file.
void check_places(const std::map<std::string, SafeTensors::Entry>& entries, i64 room,
                  const std::string& path) {
  std::vector<std::pair<i64, i64>> places;
  for (const auto& [name, e] : entries) places.emplace_back(e.begin, e.end);
  std::sort(places.begin(), places.end());
  i64 at = 0;
  for (const auto& [begin, end] : places) {
    if (begin != at) throw Error("tensors overlap or leave a gap at byte {}", begin).at(path);
    at = end;
  }
  if (at != room) throw Error("{} bytes belong to no tensor", room - at).at(path);
}

}  // namespace

std::vector<i64> file_shape(const ConstTensor& t) {
  if (t.rows == 1) return {t.cols};
  return {t.rows, t.cols};
}

i64 tensor_bytes(const NamedTensors& tensors) {
  i64 sum = 0;
  for (const auto& [name, t] : tensors) sum += t.bytes();
  return sum;
}

void write_safetensors(FileWriter& w, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  i64 at = 0;
  for (const auto& [name, t] : tensors) {
    CHECK(t.stride == t.cols && !header.contains(name), "{}: stride {} of {} columns", name,
          t.stride, t.cols);
    header[name] = {{"dtype", name_of(t.type)},
                    {"shape", file_shape(t)},
                    {"data_offsets", {at, at + t.bytes()}}};
    at += t.bytes();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const u64 length = text.size();
  w.write(&length, sizeof length);
  w.write(text);
  for (const auto& [name, t] : tensors) w.write(t.data, static_cast<std::size_t>(t.bytes()));
}

SafeTensors::SafeTensors(const std::string& path) : file_(path) {
  u64 length = 0;
  if (file_.size() < kLengthBytes)
    throw Error("not a safetensors file: only {} bytes long", file_.size()).at(path);
  std::memcpy(&length, file_.data(), sizeof length);
  if (length > static_cast<u64>(kMaxHeader) ||
      static_cast<i64>(length) > file_.size() - kLengthBytes)
    throw Error("not a safetensors file, or cut short: its header is to be {} bytes long", length)
        .at(path);

  const i64 start = kLengthBytes + static_cast<i64>(length);
  const i64 room = file_.size() - start;
  const Json header = parse_header(file_.text().substr(kLengthBytes, length), path);
  for (const auto& [name, row] : header.items()) {
    if (name != "__metadata__") {
      entries_[name] = parse_entry(name, row, room, path);
      continue;
    }
    if (!row.is_object()) throw Error("__metadata__ is not an object").at(path);
    for (const auto& [key, value] : row.items()) {
      if (!value.is_string()) throw Error("__metadata__ of '{}' is not a text", key).at(path);
      metadata_[key] = value.get<std::string>();
    }
  }
  check_places(entries_, room, path);
  for (auto& [name, e] : entries_) {
    e.begin += start;
    e.end += start;
  }
}

void SafeTensors::read_into(const std::vector<std::pair<std::string, Tensor>>& tensors,
                            std::string_view what, Leftover leftover) const {
  const std::string& path = file_.path();
  std::set<std::string> known;
  for (const auto& [name, t] : tensors) {
    known.insert(name);
    const auto found = entries_.find(name);
    if (found == entries_.end())
      throw Error("{} has tensor '{}', the file does not", what, name).at(path);
    const Entry& e = found->second;
    if (e.shape != file_shape(t))
      throw Error("tensor '{}' has shape [{}] in the file and [{}] in {}", name,
                  fmt::join(e.shape, ", "), fmt::join(file_shape(t), ", "), what)
          .at(path);
    if (e.type != t.type)
      throw Error("tensor '{}' is {} in the file and {} in {}", name, name_of(e.type),
                  name_of(t.type), what)
          .at(path);
  }
  for (const auto& [name, e] : entries_)
    if (leftover == Leftover::refused && !known.contains(name))
      throw Error("the file has tensor '{}', {} does not", name, what).at(path);

  file_.check_unchanged();
  for (const auto& [name, t] : tensors) {
    const Entry& e = entries_.at(name);
    std::memcpy(t.data, file_.data() + e.begin, static_cast<std::size_t>(e.end - e.begin));
  }
}

}  // namespace lathe::train
