#include "lathe/base/arena.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "lathe/base/view.h"

namespace lathe {
namespace {

/// Takes as a layer does: some stay, some go with their frame.
void step(Arena& a) {
  const Frame outer(a);
  const Tensor kept = a.take("kept", DType::f32, 3, 5);
  for (int i = 0; i < 4; ++i) {
    const Frame inner(a);
    const Tensor big = a.take("big", DType::f64, 7 + i, 11);
    a.take("small", DType::bf16, 1, 1);
    if (big.data) std::memset(big.data, 1, static_cast<std::size_t>(big.bytes()));
  }
  if (kept.data) std::memset(kept.data, 2, static_cast<std::size_t>(kept.bytes()));
}

TEST(Arena, DryRunMeasuresWhatTheRealStepUses) {
  Arena dry("a");
  step(dry);
  Arena real("a", dry.peak());
  step(real);
  EXPECT_EQ(real.peak(), dry.peak());
  EXPECT_EQ(dry.used(), 0);
  EXPECT_EQ(real.used(), 0);
}

TEST(Arena, HandsOutNothingWhileMeasuring) {
  Arena dry("a");
  const Tensor t = dry.take("x", DType::f32, 2, 3);
  EXPECT_EQ(t.data, nullptr);
  EXPECT_EQ(t.rows, 2);
  EXPECT_EQ(t.cols, 3);
  EXPECT_EQ(t.stride, 3);
}

TEST(Arena, EveryTakeIsAlignedAndApartFromTheOthers) {
  Arena a("a", 4096);
  const Tensor x = a.take("x", DType::bf16, 1, 3), y = a.take("y", DType::f32, 5, 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.data) % Arena::kAlign, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(y.data) % Arena::kAlign, 0u);
  EXPECT_GE(y.row<float>(0), static_cast<void*>(static_cast<std::byte*>(x.data) + x.bytes()));
}

TEST(Arena, ThePeakIsToldByName) {
  Arena dry("a");
  step(dry);
  const auto rows = dry.peak_by_name();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].first, "big");
  EXPECT_EQ(rows[0].second, 896);  // 10 x 11 doubles are 880 bytes, up to a multiple of 64
  i64 sum = 0;
  for (const auto& [name, bytes] : rows) sum += bytes;
  EXPECT_EQ(sum, dry.peak());
}

TEST(Arena, GivesTheSameMemoryAgainAfterAFrame) {
  Arena a("a", 4096);
  const void* first = nullptr;
  {
    const Frame f(a);
    first = a.take("x", DType::f32, 4, 4).data;
  }
  EXPECT_EQ(a.take("y", DType::f32, 4, 4).data, first);
}

TEST(Arena, MovingKeepsTheMemory) {
  Arena a("a", 4096);
  const void* first = a.take("x", DType::f32, 1, 1).data;
  Arena b(std::move(a));
  b.release(0);
  EXPECT_EQ(b.take("y", DType::f32, 1, 1).data, first);
}

TEST(ArenaDeathTest, GoingPastTheEndNamesTheTake) {
  EXPECT_DEATH(
      {
        Arena a("kept", 128);
        a.take("mlp.h", DType::f32, 64, 64);
      },
      "kept: mlp.h takes 16384");
}

}  // namespace
}  // namespace lathe
