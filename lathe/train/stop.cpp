#include "lathe/train/stop.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>

namespace lathe::train {
namespace {

constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP, SIGPIPE};

volatile std::sig_atomic_t g_received = 0;
std::array<struct sigaction, kSignals.size()> g_old;

extern "C" void on_signal(int number) {
  const bool insists = number != SIGHUP && g_received != 0 && g_received != SIGHUP;
  if (insists) _exit(128 + number);
  if (g_received == 0 || number != SIGHUP) g_received = number;
}

}  // namespace

StopSignal::StopSignal() {
  g_received = 0;
  struct sigaction a{};
  a.sa_flags = SA_RESTART;
  sigemptyset(&a.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    a.sa_handler = kSignals[i] == SIGPIPE ? SIG_IGN : on_signal;
    sigaction(kSignals[i], &a, &g_old[i]);
    if (kSignals[i] == SIGHUP && g_old[i].sa_handler == SIG_IGN)
      sigaction(SIGHUP, &g_old[i], nullptr);
  }
}

StopSignal::~StopSignal() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &g_old[i], nullptr);
}

int StopSignal::received() const { return g_received; }

}  // namespace lathe::train
