// A run with faults, as `railwise perf --faults SEED` draws it: a software machine on which every rank has a
// host of its own, what is measured there, and what goes wrong meanwhile. Everything follows from the seed
// and from what the command line gives. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "perf/collective/run_options.h"

namespace railwise::tools {

struct FaultMachine {
  std::vector<int> rails;  // devices of each host, soft0 ...; rank r plays host r
  int used_rails = 1;      // of a host, from soft0 on: by connections while nothing has failed
  bool infiniband = false;
  bool engine = false;
  bool adversarial = false;
  bool pacing = false;
  int speed_mbps = 400000;
  bool placed = false;  // devices have places in a PCI tree, beside a GPU: NCCL fuses no others
  // What the plugin's settings are set to, so that a lost packet is noticed within a second.
  int ack_timeout = 14;  // 4.096 us * 2^n
  int retries = 3;

  int ranks() const { return static_cast<int>(rails.size()); }
};
std::string hostName(int rank);                  // "h2"
std::string deviceName(int device);              // "soft1"
std::string placeName(int rank, int device);     // "h2/soft1"
std::string fabricName(uint64_t seed, int pid);  // of one run

enum class FaultKind {
  kPortDown,
  kPortFlap,
  kHostCutOff,
  kDeviceFatal,
  kQpFatal,
  kStatus,
  kReceiveStatus,
  kDrop,
  kBlackHoleDevice,
  kBlackHoleHosts,
  kRnr,
  kDelay,
  kStuck,
  kErrnoPostSend,
  kErrnoPostRecv,
  kErrnoPollCq,
  kErrnoSetUp,
  kGid,
  kSpeed,
  kEvent,
  kCount,
};
const char* faultKindName(FaultKind kind);

// One thing that the launcher does while data flow.
struct FaultStep {
  enum What { kRule, kPort, kHeal };
  FaultKind kind = FaultKind::kDelay;
  int at_ms = 0;  // since all ranks are connected
  What what = kRule;
  std::string text;   // kRule: of a fault rule; kPort: a change, as `railwise device port` takes it
  std::string place;  // kPort: HOST/DEVICE
  int heals = -1;     // kHeal: the index of the step whose rule is removed
};

struct Schedule {
  uint64_t seed = 0;
  FaultMachine machine;
  std::vector<FaultStep> steps;  // in the order of time
  int traffic_ms = 0;            // data flow at least so long: until a little behind the last step
};

// What the command line does not give. `faults` is the seed.
PerfOptions drawPerfOptions(Collective collective, uint64_t seed);
// `options`: what the run does in the end; its faults and ranks are set.
Schedule drawSchedule(const PerfOptions& options);

// The ranks that send to each other, each pair once.
std::vector<std::pair<int, int>> talkingRanks(Collective collective, int ranks);

// RAILWISE_DEVICE of the run, and the variables that a rank gets where they are not set.
std::string machineText(const Schedule& schedule, const std::string& fabric);
std::vector<std::pair<std::string, std::string>> faultEnvironment(const Schedule& schedule);
// Seconds that the plugin has to say that nothing is left, unless RAILWISE_FAILOVER_TIMEOUT is set.
inline constexpr int kFailoverTimeoutSeconds = 10;

// In words: the machine, the traffic, and each step.
std::vector<std::string> scheduleSentences(const Schedule& schedule, const PerfOptions& options);

}  // namespace railwise::tools
