#include "lathe/plan/per_parameter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lathe/base/config.h"
#include "lathe/base/view.h"
#include "lathe/numerics/encoding.h"
#include "lathe/numerics/format.h"
#include "lathe/train/config.h"
#include "lathe/train/footprint.h"

namespace lathe::plan {
namespace {

using numerics::Encoding;
using numerics::Format;
using numerics::Scaling;

train::RunConfig config(std::vector<std::string> more) {
  more.emplace_back("model.vocab=512");
  return train::read_run(ConfigFile::parse("", "run.toml", more));
}

/// Of the matrices of a run, whose sizes are whole numbers of groups.
double of_matrices(const std::vector<std::string>& keys) {
  const ParameterBytes b = bytes_per_parameter(config(keys)).front();
  return static_cast<double>(b.total()) / static_cast<double>(b.parameters);
}

TEST(ParameterBytes, AreThoseOfThePublishedTable) {
  const std::string bf16 = "optimizer.weights=bf16", grads = "optimizer.gradients=bf16";
  EXPECT_EQ(of_matrices({}), 18);
  EXPECT_EQ(of_matrices({"train.recipe=fp32"}), 16);
  EXPECT_EQ(of_matrices({grads}), 16);
  EXPECT_EQ(of_matrices({bf16, grads}), 12);
  EXPECT_EQ(of_matrices({bf16, grads, "optimizer.moments=bf16"}), 8);
  EXPECT_EQ(of_matrices({"optimizer.moments=8bit"}), 12 + 8.0 / 256);
  EXPECT_EQ(of_matrices({bf16, grads, "optimizer.moments=8bit"}), 6 + 8.0 / 256);
  EXPECT_EQ(of_matrices({bf16, grads, "optimizer.moments=fp8"}), 6 + 24.0 / 128);
}

double of_copy(const Encoding& e) {
  const CopyBytes b = copy_bytes(e, 1024, 2048);
  return static_cast<double>(b.elements + b.scales) / (1024.0 * 2048.0);
}

TEST(CopyBytes, CountTheFormatsBitsAndItsScales) {
  EXPECT_EQ(of_copy({}), 2);
  EXPECT_NEAR(of_copy({.format = Format::e4m3, .scaling = Scaling::current}), 1, 1e-5);
  EXPECT_EQ(of_copy({.format = Format::e4m3, .scaling = Scaling::mx}), 1 + 1.0 / 32);
  EXPECT_EQ(of_copy({.format = Format::e4m3, .scaling = Scaling::tile}), 1 + 4.0 / 128);
  EXPECT_EQ(of_copy({.format = Format::e4m3, .scaling = Scaling::tile, .square = true}),
            1 + 4.0 / 16384);
  EXPECT_NEAR(of_copy({.format = Format::e2m1, .scaling = Scaling::nvfp4}), 0.5 + 1.0 / 16, 1e-5);
  EXPECT_EQ(of_copy({.format = Format::s1p2, .scaling = Scaling::hif4}), 0.5 + 4.0 / 64);
  EXPECT_EQ(copy_bytes({.format = Format::e2m3, .scaling = Scaling::mx}, 3, 33).scales, 6)
      << "the last block of a vector may be shorter";
}

TEST(ParameterBytes, OfEmbeddingsAndVectorsAreTheirOwn) {
  const auto rows = bytes_per_parameter(
      config({"model.tied=1", "optimizer.moments=8bit", "optimizer.weights=bf16"}));
  EXPECT_EQ(rows[1].total(), (2 + 4 + 8) * rows[1].parameters) << "plain moments";
  EXPECT_EQ(rows[2].total(), 16 * rows[2].parameters) << "nothing but FP32";
}

TEST(ParameterBytes, AddUpAndLeaveOutNone) {
  for (const char* moments : {"fp32", "8bit", "fp8"}) {
    const train::RunConfig c = config({std::string("optimizer.moments=") + moments});
    const std::vector<ParameterBytes> rows = bytes_per_parameter(c);
    ASSERT_EQ(rows.size(), 4u);
    EXPECT_EQ(rows[0].parameters + rows[1].parameters + rows[2].parameters, rows[3].parameters);
    EXPECT_EQ(rows[0].total() + rows[1].total() + rows[2].total(), rows[3].total());
    EXPECT_EQ(rows[3].parameters, train::measure(c).parameters);
  }
}

TEST(ParameterBytes, TheTableSaysWhatIsHeldWhereThatIsMore) {
  const train::RunConfig c = config({});
  const i64 counted = bytes_per_parameter(c).back().total();
  EXPECT_NE(parameter_table(c, counted).find("18.00"), std::string::npos);
  EXPECT_EQ(parameter_table(c, counted).find("held here"), std::string::npos);
  EXPECT_NE(parameter_table(c, 2 * counted).find("held here"), std::string::npos);
}

TEST(SavedBytes, AreMastersMomentsAndScales) {
  const train::RunConfig plain = config({});
  EXPECT_EQ(saved_bytes(plain), 12 * train::measure(plain).parameters);
}

}  // namespace
}  // namespace lathe::plan
