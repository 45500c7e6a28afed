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
#include "lathe/model/sampler.h"
#include "lathe/numerics/recipe.h"
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

std::vector<i32> generated(Decoder& d, const std::vector<i32>& prompt, i64 count, i64 refuse_at,
                           Generated& end) {
  std::vector<i32> taken;
  end = generate(d, prompt, count, {.temperature = 2}, [&](i32 id) {
    taken.push_back(id);
    return static_cast<i64>(taken.size()) != refuse_at;
  });
  return taken;
}

TEST(Generate, EndsByCountOrByRefusal) {
  Rig rig(small_llama(), {});
  const numerics::Recipe& r = rig.ctx().recipe;
  DecoderMemory memory = DecoderMemory::backed(DecoderMemory::measured(rig.model(), r));
  Decoder d(rig.model(), kernels::ref(), r, rig.queue(), memory.cache, memory.scratch);
  Generated end;
  const std::vector<i32> few = generated(d, {1, 2, 3}, 5, 0, end);
  EXPECT_EQ(few.size(), 5u);
  EXPECT_FALSE(end.refused);
  EXPECT_EQ(end.whole, 5);
  const std::vector<i32> more = generated(d, {1, 2, 3}, 1000, 30, end);
  EXPECT_EQ(more.size(), 30u);
  EXPECT_TRUE(end.refused);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), more.begin()));
}

// Every token is the one that a decoder picks which begins with just what is in sight.
void check_beyond_the_context(ModelConfig m, i64 context) {
  m.context = context;
  Rig rig(m, {});
  const numerics::Recipe& r = rig.ctx().recipe;
  DecoderMemory memory = DecoderMemory::backed(DecoderMemory::measured(rig.model(), r));
  Decoder d(rig.model(), kernels::ref(), r, rig.queue(), memory.cache, memory.scratch);
  std::vector<i32> text{1};
  Generated end;
  const std::vector<i32> taken = generated(d, text, 3 * context, 0, end);
  ASSERT_EQ(static_cast<i64>(taken.size()), 3 * context);
  EXPECT_EQ(end.whole, context);
  i64 first = 0;  // in sight
  for (const i32 id : taken) {
    const auto length = static_cast<i64>(text.size());
    if (length - first > context) first = length - std::max<i64>(1, context / 2);
    d.reset();
    std::span<const float> logits;
    for (i64 i = first; i < length; ++i) logits = d.next(text[static_cast<std::size_t>(i)]);
    ASSERT_EQ(id, pick(logits, {.temperature = 2}, length)) << context << ", token " << length;
    text.push_back(id);
  }
}

TEST(Generate, GoesOnBeyondTheContextWithTheLastHalfOfIt) {
  for (const i64 context : {1, 2, 7, 16}) {
    check_beyond_the_context(small_llama(), context);
    check_beyond_the_context(small_gpt2(), context);
  }
}

}  // namespace
}  // namespace lathe::model
