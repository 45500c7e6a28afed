#include "lathe/train/progress.h"

#include <asm-generic/ioctls.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>

#include "lathe/base/view.h"
#include "lathe/train/runlog.h"

namespace lathe::train {
namespace {

using Clock = std::chrono::steady_clock;

/// How long a line stays before the next: on a terminal it is redrawn, elsewhere it piles up.
constexpr std::chrono::milliseconds kLive{100}, kPlain{5000};

std::string size(i64 bytes) {
  const double mb = static_cast<double>(bytes) / 1e6;
  return mb < 10'000 ? fmt::format("{:.0f} MB", mb) : fmt::format("{:.1f} GB", mb / 1e3);
}

std::size_t columns(std::FILE* out) {
  winsize w{};
  return ioctl(fileno(out), TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : 80;
}

}  // namespace

i64 resident_bytes() {
  std::FILE* f = std::fopen("/proc/self/statm", "re");
  long all = 0, resident = 0;
  if (!f) return 0;
  if (std::fscanf(f, "%ld %ld", &all, &resident) != 2) resident = 0;
  std::fclose(f);
  return resident * sysconf(_SC_PAGESIZE);
}

std::string duration(double seconds) {
  const i64 s = std::llround(std::clamp(seconds, 0.0, 1e12));
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s % 3600 / 60);
}

Progress::Progress(std::FILE* out, i64 first, i64 steps, i64 memory)
    : out_(out),
      first_(first),
      steps_(steps),
      memory_(memory),
      terminal_(isatty(fileno(out)) != 0),
      start_(Clock::now()) {}

Progress::~Progress() {
  if (live_) std::fputc('\n', out_);
  std::fflush(out_);
}

std::string Progress::describe(const LogRecord& r) const {
  const double spent = std::chrono::duration<double>(Clock::now() - start_).count();
  const double each = spent / static_cast<double>(r.step - first_ + 1);
  std::string s = fmt::format("step {:>{}}/{}  loss {:.4f}", r.step,
                              fmt::formatted_size("{}", steps_), steps_, r.loss);
  if (r.held_out_loss) s += fmt::format("  held out {:.4f}", *r.held_out_loss);
  s += fmt::format("  {:.0f} tokens/s  MFU {:.1f} %  memory {} of {}", r.tokens_per_second,
                   100 * r.mfu, size(r.rss), size(memory_));
  if (r.step < steps_)
    s += fmt::format("  {} left", duration(each * static_cast<double>(steps_ - r.step)));
  return s;
}

void Progress::step(const LogRecord& r) {
  const Clock::time_point now = Clock::now();
  const bool edge = r.step == first_ || r.step == steps_ || r.held_out_loss;
  if (!edge && now - shown_ < (terminal_ ? kLive : kPlain)) return;
  shown_ = now;
  std::string text = describe(r);
  if (!terminal_ || r.held_out_loss) return say(text);
  text.resize(std::min(text.size(), columns(out_) - 1));
  clear();
  put(text);
  live_ = true;
}

void Progress::say(std::string_view text) {
  clear();
  put(fmt::format("{}\n", text));
}

void Progress::put(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), out_);
  std::fflush(out_);
}

void Progress::clear() {
  if (live_) std::fputs("\r\033[K", out_);
  live_ = false;
}

}  // namespace lathe::train
