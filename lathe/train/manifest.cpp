#include "lathe/train/manifest.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"

namespace lathe::train {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kHint =
    "the checkpoint before it may be whole: `lathe train RUN.toml --use-previous` goes on from it";

Error damaged(std::string_view what, const std::string& path) {
  Error e("the checkpoint is damaged: {}", what);
  return e.at(path).hint("{}", kHint);
}

/// Nothing when the text is no manifest of ours.
std::optional<Manifest> parse(const std::string& text) {
  const Json j = Json::parse(text, nullptr, false);
  Manifest m;
  try {
    m.step = j.at("step").get<i64>();
    for (const auto& [name, f] : j.at("files").items())
      m.files[name] = {f.at("bytes").get<i64>(), f.at("xxh3_128").get<std::string>()};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
  // Written again it must give the same bytes: no changed byte of the text goes unseen.
  if (to_text(m) != text) return std::nullopt;
  return m;
}

void verify(const std::string& path, const Manifest::File& f) {
  if (!exists(path)) throw damaged("a file is missing", path);
  const MappedFile file(path);
  if (file.size() != f.bytes)
    throw damaged(fmt::format("{} bytes where the manifest says {}", file.size(), f.bytes), path);
  if (hash_hex(file.text()) != f.hash)
    throw damaged("its contents have changed (the hash is not the manifest's)", path);
}

}  // namespace

std::string to_text(const Manifest& m) {
  Json j = Json::object();
  j["format"] = "lathe checkpoint";
  j["version"] = 1;
  j["step"] = m.step;
  j["files"] = Json::object();
  for (const auto& [name, f] : m.files)
    j["files"][name] = {{"bytes", f.bytes}, {"xxh3_128", f.hash}};
  j["manifest_xxh3_128"] = hash_hex(j.dump());
  return j.dump(2) + "\n";
}

Manifest read_verified(const std::string& folder) {
  const std::string path = folder + "/" + kManifestName;
  if (!exists(path)) throw damaged("it has no manifest, so it was never finished", path);
  const std::optional<Manifest> m = parse(read_file(path));
  if (!m) throw damaged("its manifest has changed", path);
  for (const auto& [name, f] : m->files) {
    if (name.empty() || name.find('/') != std::string::npos)
      throw damaged("its manifest names a file outside it", path);
    verify(fmt::format("{}/{}", folder, name), f);
  }
  return *m;
}

}  // namespace lathe::train
