// `railwise explain`: why each GPU of a machine uses the NICs that it uses. The explanation is first a
// structure, which is then written as text or as JSON. The answers are those for a communicator with one rank
// on each GPU of the machine. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "topo/explain/describe.h"
#include "topo/machine/machine.h"
#include "topo/paths/policy.h"

namespace railwise::topo {

// Something that costs speed. `text` and `fix` are for people; `fix` says what to do and is empty when
// nothing can be done.
struct Problem {
  std::string kind;  // "no-nic", "far-nic", "slow-link", "gpudirect-off", "nearer-nic-lost", "split",
                     // "p2p-off", "idle-nic", "virtual-nic"
  std::string text;
  std::string fix;
  NodeIndex from = kNoNode;  // slow-link: the two nodes of the link, in the machine's graph
  NodeIndex to = kNoNode;
};

// A NIC as seen from one GPU.
struct NicView {
  int net = -1;  // index of the NET in the graph
  PathType type = PathType::kDis;
  float bandwidth = 0;  // GB/s
  int hops = 0;         // number of hops as NCCL counts them
  std::vector<Step> steps;
};

struct ChosenNic {
  NicView view;
  // The channels that use this NIC, within one period: channel c uses the NIC of c % period.
  std::vector<int> channels;
  // The rank of the GPU that sends in place of this GPU (PXN). If it is the GPU's own rank, PXN is not used.
  int proxy_rank = -1;
  GdrAnswer receive;
  GdrAnswer send;
  FlushAnswer flush;
};

struct RejectedNic {
  NicView view;
  std::string rule;  // "unconnected", "bandwidth", "distance", "turn" or "limit"
  std::string reason;
  // Rules "turn" and "limit": how the equally near NICs are divided among the GPUs; otherwise empty.
  std::string deal;
};

// How this GPU sends to and receives from the GPU with NVML index `peer_dev` on another host that is built
// alike.
struct PeerRoute {
  int peer_dev = -1;
  int channel = 0;
  int net = -1;
  int proxy_rank = -1;  // the GPU's own rank: PXN is not used
};

struct GpuExplanation {
  int gpu = -1;  // index in the machine's graph
  int rank = -1;
  std::string local_cpu;          // for example "NUMA node 0"
  std::string error;              // why the GPU has no NIC; empty: it has one
  std::vector<int> nets;          // the NETs of channel 0, 1, ... until they repeat
  std::vector<ChosenNic> chosen;  // every NIC in `nets`, once
  std::vector<RejectedNic> rejected;
  std::vector<PeerRoute> peers;
  std::vector<Problem> problems;
};

struct MachineExplanation {
  std::vector<GpuExplanation> gpus;  // by GPU index
  std::vector<Problem> problems;     // problems of the machine as a whole
};

MachineExplanation explain(const Machine& machine);

// `rank` -1: all GPUs. `channel` -1: all channels. An error if the machine has no such rank.
Outcome<std::string> explainText(const Machine& machine, int rank = -1, int channel = -1);
Outcome<std::string> explainJson(const Machine& machine, int rank = -1, int channel = -1);

// Writes "PIX, 48 GB/s", for tables and drawings.
std::string viewText(const NicView& view);
// "on", "on, forced through PCIe" or "off".
const char* gdrText(GdrMode mode);
// Says the mode and the reason, and what to set if GPUDirect is off: "on: the NIC is near enough (PIX; the
// limit is P2C)".
std::string gdrSentence(const GdrAnswer& answer);
// Whether GPUDirect works with a NIC, in a word or two: "on", "off", "receive only" or "send only".
const char* gdrSummary(const ChosenNic& nic);
// A table with one line per GPU: GPU, NICs, path, GB/s, GPUDirect.
std::string nicTable(const Machine& machine, const MachineExplanation& all);

}  // namespace railwise::topo
