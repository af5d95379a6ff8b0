// A run with faults, as it is drawn from a seed: a software machine on which every rank has a
// host of its own, what is measured there, and what goes wrong meanwhile. Everything depends only on the seed
// and on the command line. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/campaign/options.h"

namespace railwise::cli {

inline constexpr int kMaxRailsOfHost = 8;  // NCCL fuses at most so many

struct FaultMachine {
  std::vector<int> rails;  // number of devices of each host (soft0, ...); rank r runs on host r
  int used_rails = 1;  // devices of each host, from soft0 on, that connections use while nothing has failed
  bool infiniband = false;
  bool iwarp = false;
  bool rdma_cm = false;  // connects the queue pairs; on iWARP it always does
  bool engine = false;
  bool adversarial = false;
  bool pacing = false;
  bool gpu_memory = false;  // devices reach it
  bool one_sided = false;   // puts, signals and gets
  int speed_mbps = 400000;
  std::string like;     // FaultOptions::like
  bool placed = false;  // devices have a place in a PCI tree, beside a GPU; NCCL fuses only such devices
  // Settings of the plugin with which a lost packet is noticed within a second.
  int ack_timeout = 14;  // 4.096 us * 2^n
  int retries = 3;

  int ranks() const { return static_cast<int>(rails.size()); }
};
std::string hostName(int rank);                  // "h2"
std::string deviceName(int device);              // "soft1"
std::string placeName(int rank, int device);     // "h2/soft1"
std::string fabricName(uint64_t seed, int pid);  // a name for one run

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
  kStopped,
  kRefusedEnd,
  kCount,
};
const char* faultKindName(FaultKind kind);

// One thing that the launcher does while data flows.
struct FaultStep {
  enum What { kRule, kPort, kHeal, kStop, kGoOn };
  FaultKind kind = FaultKind::kDelay;
  int at_ms = 0;  // milliseconds after all ranks are connected
  What what = kRule;
  std::string text;   // kRule: a fault rule; kPort: a change, as in `railwise device port`
  std::string place;  // kPort: HOST/DEVICE; kStop, kGoOn: HOST, whose processes get SIGSTOP or SIGCONT
  int heals = -1;     // kHeal: the index of the step whose rule is removed
};

struct Schedule {
  uint64_t seed = 0;
  FaultMachine machine;
  std::vector<FaultStep> steps;  // sorted by time
  // Data must flow at least this long: until a little after the last step.
  int traffic_ms = 0;
};

// Draws the options that the command line does not give. `seed` is the value of --faults.
FaultOptions drawOptions(Collective collective, uint64_t seed);
// `options`: the final options of the run; faults and ranks must be set.
Schedule drawSchedule(const FaultOptions& options);

// The pairs of ranks that send to each other, each pair once.
std::vector<std::pair<int, int>> talkingRanks(const PerfOptions& options);

// machineText() is RAILWISE_DEVICE for the run. faultEnvironment() lists variables that a rank gets if they
// are not set.
std::string machineText(const Schedule& schedule, const std::string& fabric);
std::vector<std::pair<std::string, std::string>> faultEnvironment(const Schedule& schedule);
// How many seconds the plugin has to report that no path is left, unless RAILWISE_FAILOVER_TIMEOUT is set.
inline constexpr int kFailoverTimeoutSeconds = 10;

// Describes in words the machine, the traffic, and each step.
std::vector<std::string> scheduleSentences(const Schedule& schedule, const PerfOptions& options);

}  // namespace railwise::cli
