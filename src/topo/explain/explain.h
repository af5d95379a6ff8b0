// Why each GPU of a machine uses the NICs that it uses: `railwise explain`. First as a structure, then in
// words and as JSON. The answers are those of a communicator with one rank on each GPU of the machine. Pure;
// thread-safe.
#pragma once

#include <string>
#include <vector>

#include "topo/explain/describe.h"
#include "topo/machine/machine.h"
#include "topo/paths/policy.h"

namespace railwise::topo {

// Something that costs speed, for people; `fix` says what to do, and is empty when nothing can be done.
struct Problem {
  std::string kind;  // "no-nic", "far-nic", "slow-link", "gpudirect-off", "nearer-nic-lost", "split",
                     // "p2p-off", "idle-nic", "virtual-nic"
  std::string text;
  std::string fix;
  NodeIndex from = kNoNode;  // slow-link: its ends in the machine's graph
  NodeIndex to = kNoNode;
};

// A NIC as one GPU sees it.
struct NicView {
  int net = -1;  // index of the NET
  PathType type = PathType::kDis;
  float bandwidth = 0;  // GB/s
  int hops = 0;         // as NCCL counts
  std::vector<Step> steps;
};

struct ChosenNic {
  NicView view;
  std::vector<int> channels;  // within one period; channel c takes the NIC of c % period
  int proxy_rank = -1;        // PXN: the GPU that sends in this one's place; its own rank: none
  GdrAnswer receive;
  GdrAnswer send;
  FlushAnswer flush;
};

struct RejectedNic {
  NicView view;
  std::string rule;  // "unconnected", "bandwidth", "distance", "turn", "limit"
  std::string reason;
  std::string deal;  // turn, limit: how the equally near NICs are dealt out; else empty
};

// Send and receive towards the GPU with that NVML index on another, equal host.
struct PeerRoute {
  int peer_dev = -1;
  int channel = 0;
  int net = -1;
  int proxy_rank = -1;  // its own rank: no PXN
};

struct GpuExplanation {
  int gpu = -1;  // index in the machine's graph
  int rank = -1;
  std::string local_cpu;          // "NUMA node 0"
  std::string error;              // why it has no NIC; empty: it has
  std::vector<int> nets;          // NETs of channel 0, 1, ... until they repeat
  std::vector<ChosenNic> chosen;  // each NIC once
  std::vector<RejectedNic> rejected;
  std::vector<PeerRoute> peers;
  std::vector<Problem> problems;
};

struct MachineExplanation {
  std::vector<GpuExplanation> gpus;  // by GPU index
  std::vector<Problem> problems;     // of the machine as a whole
};

MachineExplanation explain(const Machine& machine);

// rank -1: all GPUs; channel -1: all channels. An error when the machine has no such rank.
Outcome<std::string> explainText(const Machine& machine, int rank = -1, int channel = -1);
Outcome<std::string> explainJson(const Machine& machine, int rank = -1, int channel = -1);

// One line, for tables and drawings: "PIX, 48 GB/s".
std::string viewText(const NicView& view);
// "on", "on, forced through PCIe", "off"
const char* gdrText(GdrMode mode);
// "on: the NIC is near enough (PIX; the limit is P2C)"; the mode and why, and what to set when it is off.
std::string gdrSentence(const GdrAnswer& answer);
// GPUDirect of a NIC in a word or two: "on", "off", "receive only", "send only".
const char* gdrSummary(const ChosenNic& nic);
// The NIC of each GPU, one line for each: GPU, NICs, path, GB/s, GPUDirect.
std::string nicTable(const Machine& machine, const MachineExplanation& all);

}  // namespace railwise::topo
