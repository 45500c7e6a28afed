#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/data/bpe.h"
#include "lathe/data/byte_letters.h"
#include "lathe/data/split.h"
#include "lathe/data/vocabulary.h"

namespace lathe::data {

namespace {

// Looking a key up in ordered_json takes as long as the object is: it is for writing only.
using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;
using Ids = std::unordered_map<std::string, i32>;  // by letters

// Ids index a table: a damaged file must not ask for a huge one.
constexpr i64 kMostIds = i64{1} << 24;

[[noreturn]] void refuse(const std::string& what) {
  throw Error("tokenizer asks for {}, which lathe does not support", what)
      .hint("byte-level BPE as GPT-2, GPT-NeoX, Llama 3 or Qwen use it can be read");
}

[[noreturn]] void damaged(const std::string& what) {
  throw Error("tokenizer is damaged: {}", what);
}

std::string type_of(const Json& j) {
  return j.is_object() ? j.value("type", "nothing") : "nothing";
}
bool absent(const Json& j, const char* key) { return !j.contains(key) || j[key].is_null(); }
/// A key that must hold its empty value or be left out.
void expect_empty(const Json& j, const char* key) {
  if (absent(j, key)) return;
  const Json& v = j[key];
  if (v != false && v != "" && v != 0) refuse(fmt::format("model.{} = {}", key, v.dump()));
}

void read_normalizer(const Json& n, Vocabulary& v) {
  if (n.is_null()) return;
  if (type_of(n) == "Sequence" && n.contains("normalizers")) {
    for (const Json& each : n["normalizers"]) read_normalizer(each, v);
  } else if (type_of(n) == "NFC") {
    v.nfc = true;
  } else {
    refuse(fmt::format("the normalizer {}", type_of(n)));
  }
}

void read_byte_level(const Json& p, Vocabulary& v) {
  v.add_prefix_space = p.value("add_prefix_space", true);
  if (p.value("use_regex", true)) {
    if (!v.pattern.empty()) refuse("ByteLevel's pattern behind another one");
    v.pattern = kGpt2Pattern;
  }
}

void read_pre_tokenizer(const Json& p, Vocabulary& v) {
  if (type_of(p) == "Sequence" && p.contains("pretokenizers")) {
    for (const Json& each : p["pretokenizers"]) read_pre_tokenizer(each, v);
  } else if (type_of(p) == "ByteLevel") {
    read_byte_level(p, v);
  } else if (type_of(p) == "Split") {
    if (!v.pattern.empty()) refuse("more than one splitting pattern");
    if (p.value("behavior", "") != "Isolated" || p.value("invert", false) ||
        !p.at("pattern").contains("Regex"))
      refuse("a Split that is not an isolated regular expression");
    v.pattern = p["pattern"]["Regex"].get<std::string>();
  } else {
    refuse(fmt::format("the pre-tokenizer {}", type_of(p)));
  }
}

void set_token(Vocabulary& v, i64 id, std::string bytes) {
  if (id < 0 || id >= kMostIds) damaged(fmt::format("token id {} is out of range", id));
  const auto i = static_cast<std::size_t>(id);
  if (i >= v.tokens.size()) v.tokens.resize(i + 1);
  v.tokens[i] = std::move(bytes);
}

Ids read_vocab(const Json& vocab, Vocabulary& v) {
  Ids ids;
  for (const auto& [letters, id] : vocab.items()) {
    std::string bytes;
    // added tokens are often listed here too, spelt plainly
    if (!from_letters(letters, bytes)) bytes = letters;
    set_token(v, id.get<i64>(), bytes);
    ids.emplace(letters, id.get<i32>());
  }
  for (std::size_t b = 0; b < 256; ++b) {
    const auto found = ids.find(to_letters(std::string(1, static_cast<char>(b))));
    const bool in_utf8 = b < 0xC0 || (b > 0xC1 && b < 0xF5);
    if (found == ids.end() && in_utf8) refuse(fmt::format("a vocabulary without byte {:#04x}", b));
    v.byte_ids[b] = found == ids.end() ? -1 : found->second;
  }
  return ids;
}

Merge read_merge(const Json& m, const Ids& ids) {
  std::string left, right;
  if (m.is_array() && m.size() == 2) {
    left = m[0].get<std::string>();
    right = m[1].get<std::string>();
  } else {
    const auto text = m.get<std::string>();
    const std::size_t space = text.find(' ');
    if (space == std::string::npos) damaged(fmt::format("\"{}\" is no merge", text));
    left = text.substr(0, space);
    right = text.substr(space + 1);
  }
  const auto id = [&](const std::string& letters) {
    const auto found = ids.find(letters);
    if (found == ids.end())
      damaged(fmt::format("the merge of {} and {} needs a token {}", left, right, letters));
    return found->second;
  };
  return {id(left), id(right), id(left + right)};
}

void read_model(const Json& model, Vocabulary& v) {
  if (model.value("type", "BPE") != "BPE") refuse(fmt::format("the model {}", type_of(model)));
  for (const char* key :
       {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"})
    expect_empty(model, key);
  v.ignore_merges = !absent(model, "ignore_merges") && model["ignore_merges"].get<bool>();
  const Ids ids = read_vocab(model.at("vocab"), v);
  for (const Json& m : model.at("merges")) v.merges.push_back(read_merge(m, ids));
}

void read_added(const Json& added, Vocabulary& v) {
  for (const Json& a : added) {
    const i64 id = a.at("id").get<i64>();
    const auto text = a.at("content").get<std::string>();
    if (text.empty()) damaged("an added token is empty");
    set_token(v, id, text);
    v.added.push_back({static_cast<i32>(id), text, a.value("special", false)});
  }
}

i32 find_end_of_text(const Vocabulary& v) {
  for (const std::string_view name : {kEndOfText, std::string_view("<|end_of_text|>"),
                                      std::string_view("</s>"), std::string_view("<eos>")})
    for (std::size_t id = 0; id < v.tokens.size(); ++id)
      if (v.tokens[id] == name) return static_cast<i32>(id);
  refuse("no token that ends a text");
}

Vocabulary from_json(const Json& j) {
  Vocabulary v;
  v.pattern.clear();
  if (!absent(j, "normalizer")) read_normalizer(j["normalizer"], v);
  if (absent(j, "pre_tokenizer")) refuse("no pre-tokenizer");
  read_pre_tokenizer(j["pre_tokenizer"], v);
  if (v.pattern.empty()) refuse("no splitting pattern");
  if (absent(j, "decoder") || type_of(j["decoder"]) != "ByteLevel")
    refuse("a decoder other than ByteLevel");
  read_model(j.at("model"), v);
  if (!absent(j, "added_tokens")) read_added(j["added_tokens"], v);
  v.end_of_text = find_end_of_text(v);
  return v;
}

Ordered byte_level(const Vocabulary& v, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", v.add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

Ordered pre_tokenizer(const Vocabulary& v) {
  if (v.pattern == kGpt2Pattern) return byte_level(v, true);
  const Ordered split{{"type", "Split"},
                      {"pattern", {{"Regex", v.pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Ordered::array({split, byte_level(v, false)})}};
}

}  // namespace

Vocabulary read_tokenizer_json(const std::string& path) {
  try {
    return from_json(Json::parse(read_file(path)));
  } catch (const nlohmann::json::exception& e) {
    throw Error("tokenizer cannot be read: {}", e.what()).at(path);
  } catch (Error& e) {
    if (e.where().empty()) e.at(path);
    throw;
  }
}

std::string to_tokenizer_json(const Vocabulary& v) {
  std::vector<bool> is_added(v.tokens.size());
  Ordered added = Ordered::array(), vocab = Ordered::object(), merges = Ordered::array();
  for (const AddedToken& a : v.added) {
    is_added[static_cast<std::size_t>(a.id)] = true;
    added.push_back({{"id", a.id},
                     {"content", a.text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", !a.special},
                     {"special", a.special}});
  }
  auto& entries = static_cast<Ordered::object_t::Container&>(vocab.get_ref<Ordered::object_t&>());
  for (std::size_t id = 0; id < v.tokens.size(); ++id)
    if (!is_added[id] && !v.tokens[id].empty()) entries.emplace_back(to_letters(v.tokens[id]), id);
  const auto letters = [&](i32 id) { return to_letters(v.tokens[static_cast<std::size_t>(id)]); };
  for (const Merge& m : v.merges) merges.push_back(letters(m.left) + " " + letters(m.right));
  Ordered model{{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", false},
                {"byte_fallback", false},
                {"ignore_merges", v.ignore_merges}};
  model["vocab"] = std::move(vocab);
  model["merges"] = std::move(merges);
  Ordered j{{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  j["added_tokens"] = std::move(added);
  j["normalizer"] = v.nfc ? Ordered{{"type", "NFC"}} : Ordered(nullptr);
  j["pre_tokenizer"] = pre_tokenizer(v);
  j["post_processor"] = nullptr;
  j["decoder"] = byte_level(v, v.pattern == kGpt2Pattern);
  j["model"] = std::move(model);
  return j.dump(1) + "\n";
}

std::string hash_of(const Vocabulary& v) {
  Hasher h;
  const auto add_text = [&](std::string_view text) {
    const u64 size = text.size();
    h.add(&size, sizeof size);
    h.add(text);
  };
  const auto add_number = [&](i32 n) { h.add(&n, sizeof n); };
  add_text("byte-level BPE");
  for (const std::string& t : v.tokens) add_text(t);
  for (const i32 id : v.byte_ids) add_number(id);
  for (const Merge& m : v.merges) h.add(&m, sizeof m);
  for (const AddedToken& a : v.added)
    if (!a.special) add_number(a.id);
  add_text(v.pattern);
  add_number(v.nfc * 4 + v.add_prefix_space * 2 + v.ignore_merges);
  add_number(v.end_of_text);
  return h.hex();
}

}  // namespace lathe::data
