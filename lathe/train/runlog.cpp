#include "lathe/train/runlog.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "lathe/base/error.h"
#include "lathe/base/file.h"
#include "lathe/base/view.h"
#include "lathe/train/fidelity.h"

namespace lathe::train {
namespace {

using Json = nlohmann::ordered_json;

/// Bytes of the leading lines that are records of steps up to `step`.
i64 kept_bytes(std::string_view text, i64 step) {
  std::size_t at = 0;
  for (std::size_t end; (end = text.find('\n', at)) != std::string_view::npos; at = end + 1) {
    const Json j = Json::parse(text.substr(at, end - at), nullptr, false);
    if (!j.is_object() || !j.contains("step") || !j["step"].is_number_integer() ||
        j["step"].get<i64>() > step)
      break;
  }
  return static_cast<i64>(at);
}

}  // namespace

std::string to_json(const LogRecord& r) {
  Json j = Json::object();
  j["step"] = r.step;
  j["loss"] = r.loss;
  if (!r.skipped) j["grad_norm"] = r.grad_norm;
  j["lr"] = r.lr;
  j["tokens"] = r.tokens;
  j["seconds"] = r.seconds;
  j["tokens_per_second"] = r.tokens_per_second;
  j["mfu"] = r.mfu;
  j["rss"] = r.rss;
  if (r.loss_scale) j["loss_scale"] = *r.loss_scale;
  if (r.skipped) j["skipped"] = true;
  for (const LevelChange& c : r.changes)
    j["changes"].push_back(
        {{"layer", c.layer}, {"product", c.product}, {"from", c.from}, {"to", c.to}});
  if (r.held_out_loss) j["held_out_loss"] = *r.held_out_loss;
  if (r.sample) j["sample"] = *r.sample;
  // A sample may end in the middle of a character.
  return j.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_json(i64 step, const OperandHealth& h) {
  Json j = Json::object();
  j["step"] = step;
  j["layer"] = h.layer;
  j["operand"] = h.operand;
  if (!h.level.empty()) j["level"] = h.level;
  // JSON has no infinity: an operand without noise has no ratio.
  if (std::isfinite(h.health.snr_db))
    j["sqnr_db"] = h.health.snr_db;
  else
    j["sqnr_db"] = nullptr;
  j["underflow"] = h.health.underflow;
  j["saturated"] = h.health.saturated;
  if (std::isfinite(h.health.amax))
    j["amax"] = h.health.amax;
  else
    j["amax"] = nullptr;
  return j.dump();
}

RunLog::RunLog(std::string path, i64 step) : path_(std::move(path)) {
  if (exists(path_)) size_ = kept_bytes(read_file(path_), step);
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0 || ftruncate(descriptor_, size_) != 0)
    throw Error("cannot open the log for writing: {}", std::strerror(errno)).at(path_);
}

RunLog::~RunLog() { close(descriptor_); }

bool RunLog::add(const std::string& line) {
  pending_ += line + "\n";
  return flush();
}

bool RunLog::sync() { return flush() && sync_data(descriptor_); }

bool RunLog::flush() {
  const auto bytes = static_cast<ssize_t>(pending_.size());
  if (pwrite(descriptor_, pending_.data(), pending_.size(), size_) != bytes) {
    // Part of a line may stand there now; if it cannot be cut off, the next write covers it.
    return ftruncate(descriptor_, size_) == 0 && false;
  }
  size_ += bytes;
  pending_.clear();
  return true;
}

}  // namespace lathe::train
