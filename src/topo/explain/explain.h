// `railwise explain`: why each GPU of a machine uses the NICs that it uses. The explanation is first a
// structure, which is then written as text or as JSON. The answers are those for a communicator with one rank
// on each GPU of the machine. Pure; thread-safe.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/text/text_layout.h"
#include "topo/explain/describe.h"
#include "topo/machine/machine.h"
#include "topo/paths/policy.h"

namespace railwise::topo {

// Something that costs speed. `text` and `fix` are for people; `fix` says what to do and is empty when
// nothing can be done.
struct Problem {
  std::string kind;  // "no-nic", "far-nic", "slow-link", "gpudirect-off", "nearer-nic-lost", "split",
                     // "p2p-off", "no-near-nic", "idle-nic", "virtual-nic", "init-fails"
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

// What a channel does at the GPU where it enters or leaves the host. The data of a tree flows both ways.
enum class EndUse { kRingEnters, kRingLeaves, kTree };

// The NIC of channels whose ring or tree enters or leaves the host at this GPU.
struct ChannelEnd {
  EndUse use = EndUse::kRingEnters;
  NicView view;
  std::vector<int> channels;  // in order
  int proxy_rank = -1;        // the rank that sends in place of this GPU (PXN); the GPU's own rank: none
  bool gpu_direct = false;    // in each direction in which the channel uses the NIC
  // Why the NIC is none of `GpuExplanation::nets`: "same-nic", "pair", "turn", "same-order", "shared",
  // "simple-order", "file" or "search". Empty: the NIC is one of them.
  std::string rule;
  std::string reason;
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
  std::vector<ChannelEnd> ends;        // empty without addChannels()
  std::vector<std::string> one_sided;  // names of NICs; empty without addOneSided()
  std::vector<Problem> problems;
};

// A ring as it is on every second host (each domain counts as one), where the rings of a pair change places:
// the GPUs are those of the pair's other ring.
struct SwappedRing {
  int channel = 0;
  int enter_rank = -1;
  int enter_net = -1;
  int leave_rank = -1;
  int leave_net = -1;
  bool other_nics = false;  // NCCL takes other NICs for these GPUs than the pair's other ring has
};

// The rings and trees between the GPUs of a domain and other hosts.
struct DomainChannels {
  std::vector<int> ranks;  // in order
  std::string missing;     // why there is no channel; empty: there are channels
  int channels = 0;        // what NCCL uses: the least number of rings or of trees that a domain has
  int rings = 0;           // found by the search
  int trees = 0;
  std::vector<SwappedRing> swapped;  // by channel; empty: all hosts have equal rings
  // The search found no ring, or no tree: NCCL takes the GPUs in the order of the list.
  bool simple_rings = false;
  bool simple_trees = false;

  // True if `end` has the channel. -1: every channel. Beyond the channels of the search NCCL begins again.
  bool has(const ChannelEnd& end, int channel) const;
};

struct MachineExplanation {
  std::vector<GpuExplanation> gpus;      // by GPU index
  std::vector<Problem> problems;         // problems of the machine as a whole
  std::vector<DomainChannels> channels;  // by domain; empty without addChannels()

  const DomainChannels* channelsOf(int rank) const;  // null: without addChannels()
};

// Without the channels of rings and trees: addChannels() of explain/channels adds them.
MachineExplanation explain(const Machine& machine);

// How much the text says, and how wide it is.
struct ExplainStyle {
  int rank = -1;                       // -1: all GPUs
  int channel = -1;                    // -1: all channels
  bool brief = false;                  // only the table, the problems and what to do
  bool each = false;                   // every GPU whole; else only the first of those that are alike
  std::size_t columns = kTextColumns;  // tables and names may be wider
};

// `all`: of that machine. An error if the machine has no such rank.
Outcome<std::string> explainText(const Machine& machine, const MachineExplanation& all,
                                 const ExplainStyle& style = {});
// `rank` and `channel` as in ExplainStyle.
Outcome<std::string> explainJson(const Machine& machine, const MachineExplanation& all, int rank = -1,
                                 int channel = -1);

// The NIC with the index `net` as seen from the GPU with the index `gpu`.
NicView viewOf(const Paths& paths, int gpu, int net);

// Writes "PIX, 48 GB/s", for tables and drawings.
std::string viewText(const NicView& view);
// "on", "on, forced through PCIe" or "off".
const char* gdrText(GdrMode mode);
// Says the mode and the reason, and what to set if GPUDirect is off: "on: the NIC is near enough (PIX; the
// limit is P2C)".
std::string gdrSentence(const GdrAnswer& answer);
// Whether GPUDirect works with a NIC, in a word or two: "on", "off", "receive only" or "send only".
const char* gdrSummary(const ChosenNic& nic);
// "on (assumed)" where the file does not say that the machine has it.
std::string gdrSummary(const Machine& machine, const ChosenNic& nic);
// A table with one line per GPU: GPU, NICs, path, GB/s, GPUDirect. `rank` -1: all GPUs.
std::string nicTable(const Machine& machine, const MachineExplanation& all, int rank = -1);

// Which NIC serves the one-sided communication (windows, host RMA, GIN) of each GPU, by NCCL's rule. A net
// plugin without tables for it, such as Railwise, leaves it to NCCL's own IB network, which NCCL opens beside
// the plugin (2.29.7 and newer). NCCL chooses as for the plugin's NICs (ncclTopoGetLocalNetType), but by
// direct paths: neither PXN nor GPUDirect's limit of distance changes them. Pure; thread-safe.

// Does nothing where it is not known that any NIC serves it: an older release, RCCL, no GPUDirect, a file
// whose <net> have neither gin nor rma (NCCL 2.29.7 and newer dump them), or a fused NIC before 2.30.7.
// From 2.30.7 on the members of a fused NIC serve it, each for itself.
void addOneSided(const Machine& machine, MachineExplanation& all);

// What explain() and the text are made of. Internal to explain.

// `gpu` is the GPU's index in the graph of `paths`, which may be the graph of a domain.
void addGpuProblems(const Machine& machine, const Paths& paths, int gpu, GpuExplanation& explanation);
void addMachineProblems(const Machine& machine, MachineExplanation& all);

// One table for each domain, with what must be known to read it; after a blank line. `channel` -1: all.
std::string channelTables(const Machine& machine, const MachineExplanation& all, int channel);

// Paragraphs about the rings and trees at one GPU: a label, which may be empty, and the text.
std::vector<std::pair<std::string, std::string>> channelParagraphs(const Machine& machine,
                                                                   const MachineExplanation& all,
                                                                   const GpuExplanation& gpu, int channel);

}  // namespace railwise::topo
