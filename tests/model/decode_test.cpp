#include "lathe/model/decode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/model/config.h"
#include "lathe/model/generate.h"
#include "tests/model/rig.h"

namespace lathe::model {
namespace {

/// One document that fills the context.
Text one_document(const ModelConfig& m) {
  Text text(m, 1, 3);
  std::fill(text.doc_start.begin(), text.doc_start.begin() + m.context, 0);
  return text;
}

// A row of a product does not depend on the other rows, and attention visits keys in the same order
// from a cache: one token at a time gives the bits of the whole text at once, padded as it is.
void check_decoder(const ModelConfig& m, const std::string& recipe,
                   const kernels::Kernels& kernels) {
  Rig rig(m, {.recipe = recipe, .kernels = &kernels});
  const Text text = one_document(m);
  const std::vector<double> expected = rig.logits(text);
  const numerics::Recipe& r = rig.ctx().recipe;
  DecoderMemory memory = DecoderMemory::backed(DecoderMemory::measured(rig.model(), r));
  Decoder d(rig.model(), kernels, r, rig.queue(), memory.cache, memory.scratch);
  for (int round = 0; round < 2; ++round) {
    for (i64 t = 0; t < m.context; ++t) {
      ASSERT_FALSE(d.full());
      const std::span<const float> row = d.next(text.ids[static_cast<std::size_t>(t)]);
      ASSERT_EQ(static_cast<i64>(row.size()), m.tokens);
      for (i64 v = 0; v < m.tokens; ++v)
        ASSERT_EQ(static_cast<double>(row[static_cast<std::size_t>(v)]),
                  expected[static_cast<std::size_t>(t * m.tokens + v)])
            << recipe << " " << kernels.name << ", token " << t << ", id " << v;
    }
    EXPECT_TRUE(d.full());
    d.reset();
  }
}

TEST(Decoder, GivesTheLogitsOfTheWholeText) {
  for (const kernels::Candidate& k : kernels::candidates())
    if (k.why_not.empty())
      for (const char* recipe : {"fp32", "bf16"}) {
        check_decoder(small_llama(), recipe, *k.table);
        check_decoder(small_gpt2(), recipe, *k.table);
      }
}

TEST(Generate, EndsByCountByRefusalOrByAFullContext) {
  const ModelConfig m = small_llama();
  Rig rig(m, {});
  const numerics::Recipe& r = rig.ctx().recipe;
  DecoderMemory memory = DecoderMemory::backed(DecoderMemory::measured(rig.model(), r));
  Decoder d(rig.model(), kernels::ref(), r, rig.queue(), memory.cache, memory.scratch);
  const std::vector<i32> prompt{1, 2, 3};
  std::vector<i32> taken;
  const auto take = [&](i32 id) {
    taken.push_back(id);
    return taken.size() < 30;
  };
  EXPECT_EQ(generate(d, prompt, 5, {}, take), Ended::count);
  EXPECT_EQ(taken.size(), 5u);
  const std::vector<i32> first = taken;
  d.reset();
  taken.clear();
  EXPECT_EQ(generate(d, prompt, 1000, {}, take), Ended::refused);
  EXPECT_EQ(taken.size(), 30u);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), taken.begin()));

  // The last token that is picked needs no room: nothing is asked for after it.
  d.reset();
  i64 n = 0;
  EXPECT_EQ(generate(d, prompt, 1000, {}, [&](i32) { return ++n > 0; }), Ended::full);
  EXPECT_EQ(n, m.context - static_cast<i64>(prompt.size()) + 1);
}

}  // namespace
}  // namespace lathe::model
