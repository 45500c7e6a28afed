#include "lathe/train/stop.h"

#include <signal.h>
#include <unistd.h>

#include <csignal>

namespace lathe::train {
namespace {

volatile std::sig_atomic_t g_received = 0;
struct sigaction g_old_interrupt, g_old_terminate;

extern "C" void on_signal(int number) {
  if (g_received != 0) _exit(128 + number);
  g_received = number;
}

}  // namespace

StopSignal::StopSignal() {
  g_received = 0;
  struct sigaction a{};
  a.sa_handler = on_signal;
  a.sa_flags = SA_RESTART;
  sigemptyset(&a.sa_mask);
  sigaction(SIGINT, &a, &g_old_interrupt);
  sigaction(SIGTERM, &a, &g_old_terminate);
}

StopSignal::~StopSignal() {
  sigaction(SIGINT, &g_old_interrupt, nullptr);
  sigaction(SIGTERM, &g_old_terminate, nullptr);
}

int StopSignal::received() const { return g_received; }

}  // namespace lathe::train
