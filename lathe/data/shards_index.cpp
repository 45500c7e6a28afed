#include "lathe/data/shards_index.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/data/loader.h"
#include "lathe/data/tokens.h"

namespace lathe::data {

namespace {

using Json = nlohmann::ordered_json;

constexpr i64 kVersion = 1;

Json to_json(const ShardsIndex::Part& p) {
  Json files = Json::array();
  for (const TokensEntry& f : p.files)
    files.push_back({{"file", f.file},
                     {"tokens", f.tokens},
                     {"documents", f.documents},
                     {"bytes", f.bytes},
                     {"xxh3_128", f.hash}});
  return {{"tokens", p.tokens}, {"documents", p.documents}, {"files", std::move(files)}};
}

ShardsIndex::Part part_from(const Json& j) {
  ShardsIndex::Part p{j.at("tokens"), j.at("documents"), {}};
  i64 sum = 0;
  for (const Json& f : j.at("files")) {
    TokensEntry e{f.at("file"), f.at("tokens"), f.at("documents"), f.at("bytes"), f.at("xxh3_128")};
    if (e.file.find('/') != std::string::npos) throw Error("{} is not a file's name", e.file);
    sum += e.tokens;
    p.files.push_back(std::move(e));
  }
  if (sum != p.tokens) throw Error("its files have {} tokens, not {}", sum, p.tokens);
  return p;
}

ShardsIndex index_from(const Json& j) {
  if (j.at("format") != "lathe-shards" || j.at("version") != kVersion)
    throw Error("it is of another version");
  ShardsIndex x;
  const Json& t = j.at("tokenizer");
  x.tokenizer_file = t.at("file");
  x.kind = {t.at("vocab"), t.at("end_of_text"), t.at("hash")};
  x.documents = j.at("documents");
  x.text_bytes = j.at("text_bytes");
  x.train = part_from(j.at("train"));
  x.held_out = part_from(j.at("held_out"));
  const Json& from = j.at("made_from");
  x.settings = from.at("settings");
  x.inputs_listed = from.at("inputs_listed");
  x.inputs_read = from.at("inputs_read");
  return x;
}

/// Over the hashes of the files, each part with its name.
std::string hash_of_tokens(const ShardsIndex& x) {
  Hasher h;
  const auto add = [&](std::string_view name, const ShardsIndex::Part& p) {
    h.add(name);
    for (const TokensEntry& f : p.files) h.add(f.hash);
  };
  add("train", x.train);
  add("held out", x.held_out);
  return h.hex();
}

}  // namespace

ShardsIndex read_index(const std::string& folder) {
  const std::string path = folder + "/" + kIndexName;
  if (!exists(path))
    throw Error("{}", is_folder(folder) ? "folder holds no finished shards" : "no such folder")
        .at(folder)
        .hint("lathe data PATH… --out {}", folder);
  try {
    return index_from(Json::parse(read_file(path)));
  } catch (const nlohmann::json::exception& e) {
    throw Error("index of shards is damaged: {}", e.what()).at(path).hint("make the shards again");
  } catch (const Error& e) {
    throw Error("index of shards is damaged: {}", e.what()).at(path).hint("make the shards again");
  }
}

void write_index(const std::string& folder, const ShardsIndex& x) {
  const Json j{{"format", "lathe-shards"},
               {"version", kVersion},
               {"tokenizer",
                {{"file", x.tokenizer_file},
                 {"vocab", x.kind.vocab},
                 {"end_of_text", x.kind.end_of_text},
                 {"hash", x.kind.tokenizer_hash}}},
               {"documents", x.documents},
               {"text_bytes", x.text_bytes},
               {"train", to_json(x.train)},
               {"held_out", to_json(x.held_out)},
               {"made_from",
                {{"settings", x.settings},
                 {"inputs_listed", x.inputs_listed},
                 {"inputs_read", x.inputs_read}}}};
  write_atomically(folder + "/" + kIndexName, j.dump(1) + "\n");
}

ShardsInfo read_shards_info(const std::string& folder) {
  const ShardsIndex x = read_index(folder);
  if (x.train.tokens == 0)
    throw Error("shards hold no tokens").at(folder).hint("make them from a folder that has text");
  return {x.train.tokens,
          x.held_out.tokens,
          x.documents,
          x.text_bytes,
          x.kind.vocab,
          x.kind.tokenizer_hash,
          folder + "/" + x.tokenizer_file,
          hash_of_tokens(x)};
}

}  // namespace lathe::data
