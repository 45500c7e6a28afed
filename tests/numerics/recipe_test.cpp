#include "lathe/numerics/recipe.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/numerics/format.h"

namespace lathe::numerics {
namespace {

TEST(Format, TheTableIsInTheOrderOfTheEnum) {
  for (std::size_t i = 0; i < kFormats.size(); ++i)
    EXPECT_EQ(static_cast<std::size_t>(kFormats[i].format), i) << kFormats[i].name;
}

TEST(Recipe, EachIsFoundByItsNameAndSaysWhatItIs) {
  for (const Recipe& r : recipes()) {
    EXPECT_EQ(&recipe(std::string(r.name)), &r);
    EXPECT_FALSE(r.about.empty());
  }
}

TEST(Recipe, BothOperandsOfAProductLieInOneStorageType) {
  for (const Recipe& r : recipes())
    for (const Product& p :
         {r.linear.forward, r.linear.grad_x, r.linear.grad_w, r.scores, r.values})
      EXPECT_EQ(info(p.a.format).storage, info(p.b.format).storage) << r.name;
}

TEST(Recipe, Bf16KeepsMastersAndTheResidualStreamInF32) {
  const Recipe& r = recipe("bf16");
  EXPECT_EQ(r.linear.forward.a.format, Format::bf16);
  EXPECT_EQ(r.activation, DType::bf16);
  EXPECT_EQ(r.residual, DType::f32);
  EXPECT_EQ(r.master, DType::f32);
}

TEST(Recipe, AnUnknownNameSuggestsTheNearest) {
  try {
    recipe("bf61");
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), "there is no recipe \"bf61\"");
    EXPECT_NE(e.hint().find("did you mean \"bf16\"?"), std::string::npos) << e.hint();
    EXPECT_NE(e.hint().find("fp32"), std::string::npos) << e.hint();
  }
}

}  // namespace
}  // namespace lathe::numerics
