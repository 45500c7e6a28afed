#pragma once
// Memory of a step. An arena is a stack of named takes. A measuring arena hands out nothing and
// remembers the peak; a backed arena of that size then holds exactly one real step.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/base/view.h"

namespace lathe {

class Arena {
 public:
  /// Measures: takes have null data.
  explicit Arena(std::string name);
  /// Holds `bytes`, touched on first use. Going past them is a CHECK that names the take.
  Arena(std::string name, i64 bytes);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&&) = delete;

  /// A matrix of rows x cols whose contents are undefined. `what` must outlive the arena (a
  /// literal).
  Tensor take(const char* what, DType type, i64 rows, i64 cols);

  using Mark = std::size_t;
  Mark mark() const { return takes_.size(); }
  /// Gives back everything taken since the mark.
  void release(Mark m);

  bool measuring() const { return memory_ == nullptr; }
  const std::string& name() const { return name_; }
  i64 used() const { return used_; }
  i64 peak() const { return peak_; }
  /// At the peak: bytes by name of take, largest first. Known in a measuring arena only.
  std::vector<std::pair<std::string, i64>> peak_by_name() const;

  /// Every take starts on a multiple of this.
  static constexpr i64 kAlign = 64;

 private:
  struct Take {
    const char* what;
    i64 begin, end;
  };
  std::string name_;
  std::byte* memory_ = nullptr;
  i64 capacity_ = 0, used_ = 0, peak_ = 0;
  std::vector<Take> takes_, at_peak_;
};

/// Gives back on leaving the scope what the scope took.
class Frame {
 public:
  explicit Frame(Arena& a) : arena_(a), mark_(a.mark()) {}
  ~Frame() { arena_.release(mark_); }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

 private:
  Arena& arena_;
  Arena::Mark mark_;
};

}  // namespace lathe
