#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "lathe/base/queue.h"
#include "lathe/base/rng.h"
#include "lathe/base/view.h"
#include "lathe/kernels/kernels.h"
#include "lathe/kernels/lanes.h"
#include "lathe/numerics/format.h"
#include "tests/kernels/attention_cases.h"
#include "tests/kernels/emulated_amx_attention.h"

namespace lathe::kernels {
namespace {

// ---- the same bits ----------------------------------------------------------------------------

template <class T>
void expect_same(const Trial<T>& a, const Trial<T>& b) {
  EXPECT_TRUE(same_bits(a.out, b.out)) << "out";
  EXPECT_TRUE(same_bits(a.lse, b.lse)) << "lse";
  EXPECT_TRUE(same_bits(a.dqkv, b.dqkv)) << "dqkv";
}

template <class T>
void expect_tables_agree(numerics::Format format) {
  Queue q(2);
  for (const Shape& s : kShapes) {
    Trial<T> expected(s);
    expected.compute(ref(), q, format);
    for (const Candidate& c : candidates()) {
      if (!c.why_not.empty() || c.table == &ref()) continue;
      SCOPED_TRACE(fmt::format("{} {}", c.table->name, describe(s)));
      Trial<T> run(s);
      run.compute(*c.table, q, format);
      expect_same(expected, run);
    }
  }
}

TEST(Attention, EveryTableGivesTheBitsOfTheReference) {
  expect_tables_agree<bf16>(numerics::Format::bf16);
  expect_tables_agree<float>(numerics::Format::f32);
  expect_tables_agree<float>(numerics::Format::bf16);
  expect_tables_agree<double>(numerics::Format::f64);
}

TEST(Attention, TilesGiveTheBitsOfTheReference) {
  for (const Candidate& c : candidates())
    if (c.table == &avx512bf16() && !c.why_not.empty())
      GTEST_SKIP() << "packing for tiles needs AVX512-BF16: " << c.why_not;
  Kernels tiles = avx512bf16();
  tiles.attention = emulated_amx_attention();
  Queue q(2);
  for (const Shape& s : kShapes) {
    SCOPED_TRACE(describe(s));
    Trial<bf16> expected(s), run(s);
    expected.compute(avx512bf16(), q, numerics::Format::bf16);
    run.compute(tiles, q, numerics::Format::bf16);
    expect_same(expected, run);
  }
}

TEST(Attention, ThreadsDoNotMatter) {
  const Shape s{2, 300, 4, 2, 20, 0, 3};
  for_tables([&](const Kernels& k) {
    Queue one(1);
    Trial<bf16> expected(s);
    expected.compute(k, one, numerics::Format::bf16);
    for (const int threads : {2, 4}) {
      Queue q(threads);
      Trial<bf16> run(s);
      run.compute(k, q, numerics::Format::bf16);
      expect_same(expected, run);
    }
  });
}

TEST(Attention, RowsOfABatchDoNotMatterToOneAnother) {
  const Shape all{3, 96, 2, 1, 20, 0, 2};
  Shape one = all;
  one.batch = 1;
  Queue q(2);
  for_tables([&](const Kernels& k) {
    Trial<bf16> whole(all);
    whole.compute(k, q, numerics::Format::bf16);
    for (std::size_t b = 0; b < 3; ++b) {
      Trial<bf16> part(one), expected(one);
      const auto cut = [&](auto& to, const auto& from) {
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(b * to.size()), to.size(),
                    to.begin());
      };
      cut(part.starts, whole.starts);
      cut(part.qkv, whole.qkv);
      cut(part.dout, whole.dout);
      part.compute(k, q, numerics::Format::bf16);
      cut(expected.out, whole.out);
      cut(expected.lse, whole.lse);
      cut(expected.dqkv, whole.dqkv);
      expect_same(expected, part);
    }
  });
}

// ---- what must not be seen --------------------------------------------------------------------

/// Rows [begin, end) of the batch of what a run gave.
template <class T>
::testing::AssertionResult same_rows(const Trial<T>& a, const Trial<T>& b, i64 begin, i64 end) {
  const auto rows = [&](const auto& x) {
    const i64 width = static_cast<i64>(x.size()) / a.shape.rows();
    return std::vector(x.begin() + begin * width, x.begin() + end * width);
  };
  if (auto r = same_bits(rows(a.out), rows(b.out)); !r) return r << " of out";
  if (auto r = same_bits(rows(a.lse), rows(b.lse)); !r) return r << " of lse";
  if (auto r = same_bits(rows(a.dqkv), rows(b.dqkv)); !r) return r << " of dqkv";
  return ::testing::AssertionSuccess();
}

/// Puts `value` (or noise, where it is zero) over q, k, v and dout of token t.
template <class T>
void spoil(Trial<T>& run, i64 t, double value) {
  const Rng rng{99};
  const auto over = [&](std::vector<T>& x) {
    const i64 width = static_cast<i64>(x.size()) / run.shape.rows();
    for (i64 i = 0; i < width; ++i)
      x[static_cast<std::size_t>(t * width + i)] =
          from_double<T>(value == 0 ? 3 * rng.normal(static_cast<u64>(t * width + i)) : value);
  };
  over(run.qkv);
  over(run.dout);
}

TEST(Attention, DocumentsDoNotSeeOneAnother) {
  // The second document starts and ends inside a tile, whatever a tile's size is.
  const Shape s{1, 230, 4, 2, 20, 0, 1};
  const i64 begin = 45, end = 171;
  Queue q(2);
  const double inf = std::numeric_limits<double>::infinity();
  for_tables([&](const Kernels& k) {
    const auto trial = [&](double value) {
      Trial<bf16> run(s);
      for (i64 t = begin; t < s.time; ++t)
        run.starts[static_cast<std::size_t>(t)] = static_cast<i32>(t < end ? begin : end);
      if (value != 1)
        for (i64 t = begin; t < end; t += 3) spoil(run, t, value);
      run.compute(k, q, numerics::Format::bf16);
      return run;
    };
    const Trial<bf16> before = trial(1);
    for (const double value : {0.0, std::nan(""), inf, -inf}) {
      SCOPED_TRACE(fmt::format("second document holding {}", value));
      const Trial<bf16> after = trial(value);
      EXPECT_TRUE(same_rows(before, after, 0, begin));
      EXPECT_TRUE(same_rows(before, after, end, s.time));
      EXPECT_FALSE(same_rows(before, after, begin, end));
    }
  });
}

TEST(Attention, TheFutureIsNotSeen) {
  const Shape s{1, 200, 2, 1, 20, 0, 1};
  Queue q(2);
  for_tables([&](const Kernels& k) {
    Trial<bf16> before(s);
    before.compute(k, q, numerics::Format::bf16);
    for (const double value : {0.0, std::nan("")}) {
      Trial<bf16> after(s);
      spoil(after, 150, value);
      after.compute(k, q, numerics::Format::bf16);
      const i64 width = s.heads * s.width;
      for (i64 i = 0; i < 150 * width; ++i) {
        const auto at = static_cast<std::size_t>(i);
        ASSERT_EQ(before.out[at].bits, after.out[at].bits) << "element " << i;
      }
      EXPECT_FALSE(same_rows(before, after, 150, 151));
    }
  });
}

TEST(Attention, AWindowHidesWhatIsOlder) {
  const Shape s{1, 200, 2, 1, 20, 33, 1};
  Queue q(2);
  for_tables([&](const Kernels& k) {
    Trial<bf16> before(s);
    before.compute(k, q, numerics::Format::bf16);
    for (const double value : {0.0, std::nan("")}) {
      Trial<bf16> after(s);
      spoil(after, 70, value);
      after.compute(k, q, numerics::Format::bf16);
      // Token 70 is last seen by 70 + 33 - 1; gradients reach back from there to 38.
      EXPECT_TRUE(same_rows(before, after, 0, 38));
      EXPECT_TRUE(same_rows(before, after, 70 + 33 + 33, s.time));
      const i64 last = 70 + 33 - 1, width = 2 * 20;
      for (i64 i = 70 * width; i < s.time * width; ++i) {
        const auto at = static_cast<std::size_t>(i);
        if (i >= (last + 1) * width) {
          ASSERT_EQ(before.out[at].bits, after.out[at].bits) << i;
        }
      }
      EXPECT_FALSE(same_rows(before, after, last, last + 1));
    }
  });
}

TEST(Attention, WhoeverSeesANanIsNan) {
  const Shape s{1, 100, 2, 1, 20, 0, 1};
  Queue q(1);
  for_tables([&](const Kernels& k) {
    Trial<bf16> run(s);
    run.qkv[static_cast<std::size_t>(50 * s.qkv() + 3 * 20 + 7)] = to_bf16(NAN);  // of a value
    run.compute(k, q, numerics::Format::bf16);
    for (i64 i = 0; i < s.rows() * 40; ++i)
      ASSERT_EQ(std::isnan(to_float(run.out[static_cast<std::size_t>(i)])), i >= 50 * 40) << i;
    for (i64 t = 0; t < s.time; ++t)  // every key is seen by some query that is spoilt
      ASSERT_TRUE(std::isnan(to_float(run.dqkv[static_cast<std::size_t>(t * s.qkv() + 40)]))) << t;
  });
}

// ---- decoding ---------------------------------------------------------------------------------

template <class T>
void expect_decoding_agrees(numerics::Format format) {
  Queue q(2);
  const Shape shapes[] = {{1, 1, 2, 2, 8, 0, 1},
                          {1, 45, 4, 2, 20, 0, 1},
                          {1, 170, 8, 1, 64, 0, 1},
                          {1, 150, 2, 1, 33, 60, 1}};
  for (const Shape& s : shapes) {
    SCOPED_TRACE(describe(s));
    const i64 d = s.width, wide = s.heads * d, narrow = s.kv_heads * d;
    for_tables([&](const Kernels& k) {
      Trial<T> run(s);
      run.compute(k, q, format);
      const ConstTensor qkv = tensor(run.qkv.data(), s.time, s.qkv());
      const ConstTensor keys = qkv.slice_cols(wide, narrow);
      const ConstTensor values = qkv.slice_cols(wide + narrow, narrow);
      for (i64 length = 1; length <= s.time; length += length < 40 ? 13 : 31) {
        std::vector<T> out(static_cast<std::size_t>(wide));
        k.attention.decode(q, tensor(out.data(), 1, wide),
                           qkv.slice_cols(0, wide).slice_rows(length - 1, 1), keys, values, length,
                           s.attention(format));
        const auto first = run.out.begin() + (length - 1) * wide;
        ASSERT_TRUE(same_bits(out, std::vector<T>(first, first + wide))) << "length " << length;
      }
    });
  }
}

TEST(Attention, DecodingGivesTheBitsOfForward) {
  expect_decoding_agrees<bf16>(numerics::Format::bf16);
  expect_decoding_agrees<float>(numerics::Format::f32);
  expect_decoding_agrees<double>(numerics::Format::f64);
}

}  // namespace
}  // namespace lathe::kernels
