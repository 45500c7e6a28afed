#include "lathe/base/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lathe/base/error.h"
#include "lathe/base/view.h"

namespace lathe {

Arena::Arena(std::string name) : name_(std::move(name)) {}

Arena::Arena(std::string name, i64 bytes) : name_(std::move(name)), capacity_(bytes) {
  // One page more, so that an arena of 0 bytes is backed too.
  const auto size = static_cast<std::size_t>(bytes + 4096);
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    throw Error("cannot reserve {} bytes of memory for {}", bytes, name_)
        .hint("lower train.micro_batch or set train.recompute = \"block\"");
  madvise(p, size, MADV_HUGEPAGE);
  memory_ = static_cast<std::byte*>(p);
}

Arena::Arena(Arena&& other) noexcept
    : name_(std::move(other.name_)),
      memory_(std::exchange(other.memory_, nullptr)),
      capacity_(other.capacity_),
      used_(other.used_),
      peak_(other.peak_),
      takes_(std::move(other.takes_)),
      at_peak_(std::move(other.at_peak_)) {}

Arena::~Arena() {
  if (memory_) munmap(memory_, static_cast<std::size_t>(capacity_ + 4096));
}

Tensor Arena::take(const char* what, DType type, i64 rows, i64 cols) {
  const i64 bytes = rows * cols * size_of(type);
  const i64 begin = used_;
  const i64 end = begin + (bytes + kAlign - 1) / kAlign * kAlign;
  CHECK(measuring() || end <= capacity_, "{}: {} takes {} bytes at {}, past {}", name_, what, bytes,
        begin, capacity_);
  takes_.push_back({what, begin, end});
  used_ = end;
  if (used_ > peak_) {
    peak_ = used_;
    if (measuring()) at_peak_ = takes_;
  }
  return {memory_ ? memory_ + begin : nullptr, type, rows, cols, cols};
}

void Arena::release(Mark m) {
  CHECK(m <= takes_.size(), "{}: mark {} past {} takes", name_, m, takes_.size());
  if (m < takes_.size()) used_ = takes_[m].begin;
  takes_.resize(m);
}

std::vector<std::pair<std::string, i64>> Arena::peak_by_name() const {
  std::map<std::string, i64> sums;
  for (const Take& t : at_peak_) sums[t.what] += t.end - t.begin;
  std::vector<std::pair<std::string, i64>> rows(sums.begin(), sums.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return rows;
}

}  // namespace lathe
