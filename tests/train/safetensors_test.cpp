#include "lathe/train/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "tests/support/temporary_folder.h"

namespace lathe::train {
namespace {

using testing_support::TemporaryFolder;

void put(const std::string& path, const std::string& bytes) {
  FileWriter w(path);
  w.write(bytes);
  w.finish();
}

/// A file of this header and this many bytes of tensors.
std::string file_of(const std::string& header, std::size_t data_bytes) {
  const u64 length = header.size();
  std::string s(8, '\0');
  std::memcpy(s.data(), &length, 8);
  return s + header + std::string(data_bytes, 'x');
}

std::string error_of(const std::string& path) {
  try {
    const SafeTensors s(path);
  } catch (const Error& e) {
    return e.report();
  }
  return {};
}

TEST(SafeTensors, GiveBackEveryTypeAndShape) {
  const TemporaryFolder folder;
  double d[2] = {1.5, -0.0};
  float f[6] = {1, 2, 3, 4, 5, 6};
  bf16 b[4] = {{0x3f80}, {0x7fc0}, {1}, {0xffff}};
  i32 i[3] = {-1, 0, 7};
  FileWriter w(folder / "t");
  write_safetensors(w,
                    {{"d", tensor(d, 1, 2)},
                     {"f", tensor(f, 2, 3)},
                     {"b", tensor(b, 2, 2)},
                     {"i", tensor(i, 3, 1)}},
                    {{"step", "7"}});
  w.finish();

  const SafeTensors s(folder / "t");
  EXPECT_EQ(s.metadata().at("step"), "7");
  EXPECT_EQ(s.entries().at("d").shape, std::vector<i64>({2}));
  EXPECT_EQ(s.entries().at("f").shape, std::vector<i64>({2, 3}));
  EXPECT_EQ(s.entries().at("b").type, DType::bf16);
  double d2[2];
  float f2[6];
  bf16 b2[4];
  i32 i2[3];
  s.read_into({{"i", tensor(i2, 3, 1)},
               {"d", tensor(d2, 1, 2)},
               {"f", tensor(f2, 2, 3)},
               {"b", tensor(b2, 2, 2)}},
              "the test");
  EXPECT_EQ(std::memcmp(d, d2, sizeof d), 0);
  EXPECT_EQ(std::memcmp(f, f2, sizeof f), 0);
  EXPECT_EQ(std::memcmp(b, b2, sizeof b), 0);
  EXPECT_EQ(std::memcmp(i, i2, sizeof i), 0);
}

TEST(SafeTensors, PadTheHeaderToEightBytes) {
  const TemporaryFolder folder;
  for (std::size_t n = 1; n <= 9; ++n) {
    float f = 1;
    FileWriter w(folder / "t");
    write_safetensors(w, {{std::string(n, 'a'), tensor(&f, 1, 1)}});
    w.finish();
    const std::string bytes = read_file(folder / "t");
    u64 length = 0;
    std::memcpy(&length, bytes.data(), 8);
    EXPECT_EQ(length % 8, 0u);
    EXPECT_EQ(bytes.size(), 8 + length + 4);
  }
}

TEST(SafeTensors, RefuseAFileCutAnywhere) {
  const TemporaryFolder folder;
  float f[3] = {1, 2, 3};
  FileWriter w(folder / "t");
  write_safetensors(w, {{"a", tensor(f, 1, 2)}, {"b", tensor(f, 1, 3)}});
  w.finish();
  const std::string whole = read_file(folder / "t");
  for (std::size_t n = 0; n < whole.size(); ++n) {
    put(folder / "t", whole.substr(0, n));
    EXPECT_NE(error_of(folder / "t").find(folder / "t"), std::string::npos) << n;
  }
  put(folder / "t", whole + "x");
  EXPECT_NE(error_of(folder / "t"), "");
}

TEST(SafeTensors, RefuseHostileHeaders) {
  const TemporaryFolder folder;
  const auto row = [](const std::string& dtype, const std::string& shape, const std::string& at) {
    return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + at + "}}";
  };
  const std::vector<std::string> headers = {
      "",
      "[]",
      "7",
      "{",
      "{} x",
      "\xff\xfe",
      R"({"a":3})",
      R"({"a":{}})",
      row("\"F16\"", "[4]", "[0,8]"),
      row("7", "[2]", "[0,8]"),
      row("\"F32\"", "[3]", "[0,8]"),
      row("\"F32\"", "[-2]", "[0,8]"),
      row("\"F32\"", "[2.0]", "[0,8]"),
      row("\"F32\"", "2", "[0,8]"),
      row("\"F32\"", "[2]", "[8,0]"),
      row("\"F32\"", "[2]", "[-8,0]"),
      row("\"F32\"", "[2]", "[1,9]"),
      row("\"F32\"", "[2]", "[0]"),
      row("\"F32\"", "[2]", "[0,8,16]"),
      row("\"F32\"", "[1]", "[0,4]"),
      row("\"F32\"", "[1]", "[4,8]"),
      row("\"F32\"", "[4611686018427387904,4]", "[0,8]"),
      row("\"F32\"", "[18446744073709551615]", "[0,8]"),
      row("\"F32\"", "[0,9223372036854775807,9223372036854775807]", "[0,8]"),
      R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
      R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1}})",
      R"({"__metadata__":7,"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
      R"({"__metadata__":{"k":7},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
  };
  for (const std::string& h : headers) {
    put(folder / "t", file_of(h, 8));
    EXPECT_NE(error_of(folder / "t").find(folder / "t"), std::string::npos) << h;
  }
  put(folder / "t", file_of(row("\"F32\"", "[2]", "[0,8]"), 8));
  EXPECT_EQ(error_of(folder / "t"), "");
}

TEST(SafeTensors, RefuseAHeaderLengthThatOverflows) {
  const TemporaryFolder folder;
  for (const u64 length : {~u64{0}, u64{1} << 63, u64{100'000'001}, u64{9}}) {
    std::string s(16, ' ');
    std::memcpy(s.data(), &length, 8);
    put(folder / "t", s);
    EXPECT_NE(error_of(folder / "t"), "") << length;
  }
}

TEST(SafeTensors, NameTheTensorThatDoesNotFit) {
  const TemporaryFolder folder;
  float f[6] = {};
  double d[6] = {};
  FileWriter w(folder / "t");
  write_safetensors(w, {{"one", tensor(f, 2, 3)}, {"two", tensor(f, 1, 2)}});
  w.finish();
  const SafeTensors s(folder / "t");
  const auto complaint = [&](const std::vector<std::pair<std::string, Tensor>>& want) {
    try {
      s.read_into(want, "the model");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const Tensor two = tensor(f, 1, 2);
  EXPECT_EQ(complaint({{"one", tensor(f, 3, 2)}, {"two", two}}),
            "tensor 'one' has shape [2, 3] in the file and [3, 2] in the model");
  EXPECT_EQ(complaint({{"one", tensor(d, 2, 3)}, {"two", two}}),
            "tensor 'one' is F32 in the file and F64 in the model");
  EXPECT_EQ(complaint({{"two", two}}), "the file has tensor 'one', the model does not");
  EXPECT_EQ(complaint({{"one", tensor(f, 2, 3)}, {"two", two}, {"three", two}}),
            "the model has tensor 'three', the file does not");
  EXPECT_EQ(complaint({{"one", tensor(f, 2, 3)}, {"two", two}}), "");
}

}  // namespace
}  // namespace lathe::train
