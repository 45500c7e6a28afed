#pragma once
// TensorBoard's event files: TFRecords (u64 length, masked CRC-32C of it, payload, masked CRC-32C
// of that) of Event messages (tensorflow/core/util/event.proto), encoded by hand.

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/base/view.h"

namespace lathe::train {

/// CRC-32C (Castagnoli), not masked.
u32 crc32c(std::string_view bytes);

/// One file of events: each start of a run adds its own. A failed write loses curves, not the run:
/// nothing here throws but the constructor.
class EventFile {
 public:
  /// Makes `folder`/events.out.tfevents.… and says in it that what other files hold after `step` is
  /// void. Throws Error when it cannot.
  EventFile(const std::string& folder, i64 step);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  void add(i64 step, const std::vector<std::pair<std::string, double>>& scalars);
  void add_text(i64 step, std::string_view tag, std::string_view text);
  const std::string& path() const { return path_; }

 private:
  void record(std::string_view event);

  std::string path_;
  std::FILE* file_ = nullptr;
};

}  // namespace lathe::train
