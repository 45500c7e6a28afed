// Against ids that other implementations gave. The files are large and not part of the project.

#include <gtest/gtest.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/data/tokenizer.h"
#include "tests/data/scratch_folder.h"

namespace lathe::data {
namespace {

const std::string kFolder = "../shared/data/tokenizers/";

#define NEEDS(path) \
  if (!exists(path)) GTEST_SKIP() << "needs " << (path)

std::vector<std::string> texts_of(const std::string& path) {
  const std::string all = read_file(path), mark = "\n__ggml_vocab_test__\n";
  std::vector<std::string> texts;
  for (std::size_t at = 0;;) {
    const std::size_t end = all.find(mark, at);
    texts.push_back(all.substr(at, end - at));
    if (end == std::string::npos) break;
    at = end + mark.size();
  }
  return texts;
}

std::vector<std::vector<i32>> ids_of(const std::string& path) {
  std::vector<std::vector<i32>> rows;
  std::istringstream lines(read_file(path));
  for (std::string line; std::getline(lines, line);) {
    rows.emplace_back();
    std::istringstream ids(line);
    for (i32 id = 0; ids >> id;) rows.back().push_back(id);
  }
  return rows;
}

void expect_vectors(const Tokenizer& t, const std::string& name) {
  const auto texts = texts_of(kFolder + "vectors." + name + ".inp");
  const auto ids = ids_of(kFolder + "vectors." + name + ".out");
  ASSERT_GT(ids.size(), 30u);
  ASSERT_GE(texts.size(), ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(t.encode(texts[i]), ids[i]) << texts[i];
}

/// GPT-2's own two files as the tokenizer.json that holds the same.
std::string gpt2_json() {
  nlohmann::json merges = nlohmann::json::array();
  std::istringstream lines(read_file(kFolder + "gpt2.vocab.bpe"));
  std::string line;
  std::getline(lines, line);  // the version
  while (std::getline(lines, line))
    if (!line.empty()) merges.push_back(line);
  const nlohmann::json byte_level{{"type", "ByteLevel"}, {"add_prefix_space", false}};
  return nlohmann::json{
      {"pre_tokenizer", byte_level},
      {"decoder", byte_level},
      {"model",
       {{"type", "BPE"},
        {"vocab", nlohmann::json::parse(read_file(kFolder + "gpt2.encoder.json"))},
        {"merges", merges}}}}
      .dump();
}

TEST(KnownTokenizers, Gpt2GivesTheIdsOfHuggingFace) {
  NEEDS(kFolder + "gpt2.encoder.json");
  const ScratchFolder folder;
  const Tokenizer t = Tokenizer::load(folder.write("tokenizer.json", gpt2_json()));
  EXPECT_EQ(t.size(), 50257);
  EXPECT_EQ(t.end_of_text(), 50256);
  expect_vectors(t, "gpt-2");
}

TEST(KnownTokenizers, QwenGivesTheIdsOfHuggingFace) {
  NEEDS(kFolder + "qwen3.tokenizer.json");
  const Tokenizer t = Tokenizer::load(kFolder + "qwen3.tokenizer.json");
  EXPECT_EQ(t.bytes(t.end_of_text()), "<|endoftext|>");
  expect_vectors(t, "qwen2");
}

TEST(KnownTokenizers, GptNeoxFindsItsRunsOfSpaces) {
  NEEDS(kFolder + "gptneox_olmo.tokenizer.json");
  const Tokenizer t = Tokenizer::load(kFolder + "gptneox_olmo.tokenizer.json");
  EXPECT_EQ(t.encode(std::string(24, ' ')), (std::vector<i32>{50254}));
  EXPECT_EQ(t.decode(t.encode("int main() {\n    return 0;\n}")), "int main() {\n    return 0;\n}");
}

TEST(KnownTokenizers, Llama2cRoundTripsAndFallsBackToBytes) {
  const std::string path = "../shared/data/models/tok512.bin";
  NEEDS(path);
  const Tokenizer t = Tokenizer::load(path);
  EXPECT_EQ(t.size(), 512);
  EXPECT_EQ(t.end_of_text(), 1);
  EXPECT_EQ(t.bytes(3 + '\n'), "\n");
  for (const char* text : {"Once upon a time, there was", "a\tb\nc", "\xE4\xB8\x96\xFF{}", " x"}) {
    const std::vector<i32> ids = t.encode(text);
    EXPECT_EQ(t.decode(ids), text);
    std::vector<i32> opened = ids;
    opened.insert(opened.begin(), 1);
    EXPECT_EQ(t.decode(opened), text);
  }
  const ScratchFolder folder;
  EXPECT_THROW(t.save(folder / "tokenizer.json"), Error);
  const std::string whole = read_file(path);
  for (const std::size_t n : {0u, 3u, 100u, 5000u, 6226u})
    EXPECT_THROW(Tokenizer::load(folder.write("cut.bin", whole.substr(0, n))), Error) << n;
}

}  // namespace
}  // namespace lathe::data
