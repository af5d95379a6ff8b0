// Rails that differ: what a connection gets out of all of them, against the sum of what they carry. The
// software device keeps to the speeds (pacing=on): a rail's completions come no sooner than its port and PCIe
// link allow. One thread drives both ends. Prints, for every case, the best of several rounds: on a busy
// machine a round only ever loses. For comparison also with equal shares (RAILWISE_SPLIT=even), as net_ib
// cuts.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <string>
#include <vector>

#include "loop_connection.h"
#include "softdev/control/control.h"
#include "softdev/engine/attachment.h"

namespace railwise::net {
namespace {

constexpr std::size_t kMessageBytes = 8 << 20;
constexpr int kWindow = 4;
constexpr int kRounds = 5;
constexpr int kMessages = 24;  // in a round

class Run {
 public:
  Run(const std::string& devices, int rails) : loop_(2 * kMessageBytes, devices, rails) {}

  // Seconds that `messages` take.
  double time(int messages) {
    const auto begin = std::chrono::steady_clock::now();
    int posted = 0;
    std::deque<Request*> requests;
    while (posted < messages || !requests.empty()) {
      while (posted < messages && requests.size() < 2 * kWindow) {
        requests.push_back(loop_.receive(1, kMessageBytes, kMessageBytes));
        requests.push_back(loop_.send(0, kMessageBytes));
        if (requests.back() == nullptr) std::abort();
        ++posted;
      }
      for (int i = 0; i < 2; ++i) {
        if (!LoopConnection::finish(requests.front())) std::abort();
        requests.pop_front();
      }
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  // The best share of `mbps` that a round of messages got.
  double best(int mbps) {
    double seconds = time(kMessages);  // the first learns
    for (int round = 0; round < kRounds; ++round) seconds = std::min(seconds, time(kMessages));
    return share(seconds, kMessages, mbps);
  }

  static double share(double seconds, int messages, int mbps) {
    return static_cast<double>(messages) * kMessageBytes * 8 / 1e6 / seconds / mbps;
  }

  // What the port carries from now on.
  void setSpeed(const std::string& port, int mbps) {
    const auto fabric = softdev::joinFabric("test" + std::to_string(getpid()));
    if (!fabric.ok()) std::abort();
    const auto ports = softdev::findPorts(**fabric, port);
    if (!ports.ok() || !softdev::changePort(**fabric, (*ports)[0], "speed=" + std::to_string(mbps)).ok())
      std::abort();
  }

 private:
  LoopConnection loop_;
};

void print(const char* what, const char* split, int mbps, double share) {
  std::printf("%-58s %-5s %6.1f Gb/s   %.3f of it\n", what, split, mbps / 1000.0, share);
}

// Four rails, one of which gets slower and slower.
double dying() {
  Run run("count=4,speed=10000;pacing=on", 4);
  run.time(kMessages);
  double carried = 0;
  double possible = 0;
  for (const int mbps : {10000, 5000, 2500}) {
    run.setSpeed("soft3:1", mbps);
    double seconds = 1e9;
    run.time(4);  // it is found out within these
    for (int round = 0; round < 3; ++round) seconds = std::min(seconds, run.time(12));
    carried += 12.0 * kMessageBytes * 8 / 1e6;
    possible += seconds * (30000 + mbps);
  }
  return carried / possible;
}

void all(const char* split) {
  setenv("RAILWISE_SPLIT", split, 1);
  print("one rail", split, 10000, Run("speed=10000;pacing=on", 1).best(10000));
  print("two equal rails", split, 20000, Run("count=2,speed=10000;pacing=on", 2).best(20000));
  print("four equal rails", split, 20000, Run("count=4,speed=5000;pacing=on", 4).best(20000));
  print("eight equal rails", split, 20000, Run("count=8,speed=2500;pacing=on", 8).best(20000));
  print("two rails, one says that it has a quarter", split, 12500,
        Run("speed=10000;speed=2500;pacing=on", 2).best(12500));
  print("two rails, one has a quarter and does not say so (PCIe)", split, 12500,
        Run("speed=10000;speed=10000,pci=0000:10:00.0,pcie=2500;pacing=on", 2).best(12500));
  print("four rails, one dying slowly", split, 37500, dying());
}

}  // namespace
}  // namespace railwise::net

int main() {
  railwise::net::all("auto");
  railwise::net::all("even");
}
