#include "plugin/stress/disturber.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "softdev/control/control.h"
#include "softdev/engine/attachment.h"
#include "softdev/queues/random.h"

namespace railwise::test {
namespace {

void rest(uint64_t milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

}  // namespace

Disturber::Disturber(const std::string& fabric, uint64_t seed) {
  if (fabric.empty()) return;
  const std::string number = std::to_string(seed);
  process_ = fork();
  if (process_ != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  execl("/proc/self/exe", "plugin_stress", "--disturb", fabric.c_str(), number.c_str(), nullptr);
  _exit(127);
}

Disturber::~Disturber() {
  if (process_ < 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

int disturb(const char* fabric, const char* seed) {
  softdev::Random random(std::strtoull(seed, nullptr, 10));
  auto joined = softdev::joinFabric(fabric);
  for (; !joined.ok(); joined = softdev::joinFabric(fabric)) rest(10);  // nobody has made it yet
  for (;;) {
    rest(50 + random.below(300));
    const auto ports = softdev::findPorts(**joined, "soft" + std::to_string(random.below(4)));
    if (!ports.ok()) continue;  // no communicator is there
    const auto change = [&](const std::string& to) {
      (void)softdev::changePort(**joined, ports->front(), to);
    };
    if (random.below(3) == 0) {
      change("gid=1=10.9.8." + std::to_string(1 + random.below(250)));
      continue;
    }
    change("down");
    rest(random.below(60));
    change("up");
  }
}

}  // namespace railwise::test
