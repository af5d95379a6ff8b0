// Which hosts are measured with each other, in which order, and which NICs of them. Pure; thread-safe. All
// ends compute the plan from the facts of all ends, so no plan is sent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "verbs/gid.h"

namespace railwise::doctor::pair {

// What an end of the pair test says of itself before anything is measured: its host and its NICs. Plain
// values; thread-safe.

enum class LinkKind : uint8_t { kOther = 0, kInfiniBand = 1, kRoce = 2, kIwarp = 3 };
const char* linkName(LinkKind link);

// "IB", "RoCE v1", "RoCE v2", with the family: "RoCE v2 IPv4".
std::string gidTypeText(const verbs::Gid& gid);

// One port of one device.
struct NicFacts {
  std::string device;  // "mlx5_0"
  uint8_t port = 1;
  std::string error;      // why the port cannot be used at all; "": it can be opened
  bool active = false;    // the port's state
  bool software = false;  // no hardware moves the data, so the speeds below are only what the device says
  LinkKind link = LinkKind::kOther;
  uint32_t speed_mbps = 0;  // of the port; 0: not known
  uint32_t mtu_bytes = 0;   // the port's active MTU
  uint32_t lid = 0;
  uint32_t pcie_mbps = 0;        // of the narrowest link between the NIC and the root; 0: not known
  std::string pcie;              // the narrowest link in words: "32 GT/s x16"
  int numa = -1;                 // -1: not known
  std::vector<verbs::Gid> gids;  // best first, at most verbs::kMaxGids
  // Enhanced connection establishment (ECE), as the device offers it to a peer. Vendor 0: it offers none, or
  // NCCL_IB_ECE_ENABLE is 0.
  uint32_t ece_vendor = 0;
  uint32_t ece_options = 0;

  bool operator==(const NicFacts&) const = default;
};
// "mlx5_0", or "mlx5_0 port 2".
std::string nicName(const NicFacts& nic);

// What the port and the PCIe path allow in one direction, GB/s; 0: not known.
double allowedGbytes(const NicFacts& nic);

// The sum over NICs that NCCL's channels use, as the model of the machine has it.
struct AllReduceModel {
  double gbytes = 0;  // expected bus bandwidth of all_reduce, GB/s; 0: the model does not say
  std::string rule;   // where the number comes from, or why there is none

  bool operator==(const AllReduceModel&) const = default;
};

// One process that takes part.
struct EndFacts {
  std::string host;
  bool takes_part = true;       // false: it only coordinates the others
  std::string failure;          // why this end cannot measure anything ("no RDMA device"); "": it can
  std::string memory = "host";  // where the data lie: "host", or the memory of a GPU
  std::vector<NicFacts> nics;   // in PCI order, as NCCL numbers them
  AllReduceModel all_reduce;
  std::vector<std::string> hidden;  // what could not be looked at

  bool operator==(const EndFacts&) const = default;
};

// The two ends of a match: every array of two is in their order.
inline constexpr std::array<std::size_t, 2> kSides = {0, 1};

// Two hosts that measure with each other, as positions in the list of ends, the smaller one first.
using Match = std::array<std::size_t, 2>;

// A tournament: every host meets every other once, no host is in two matches of a round. N hosts take N - 1
// rounds, or N if N is odd.
std::vector<std::vector<Match>> tournament(const std::vector<std::size_t>& ends);

// Why a pair of NICs is not measured.
enum class Obstacle : uint8_t {
  kNone,
  kNotOpened,  // a device cannot be opened
  kPortDown,   // the port at one end is down
  kBothDown,   // the ports at both ends are down: nothing is plugged in
  kLinkKind,   // InfiniBand at one end, Ethernet at the other, where the NICs belong together
  kNoGids,     // no address of one port reaches one of the other
};

// A NIC of each end.
struct NicPair {
  std::array<std::size_t, 2> nics = {};  // positions in EndFacts::nics
  Obstacle obstacle = Obstacle::kNone;
  std::array<std::size_t, 2> gids = {};  // positions in NicFacts::gids of the addresses that are used
  bool measured() const { return obstacle == Obstacle::kNone; }
  bool operator==(const NicPair&) const = default;
};

// NICs of one name are a pair, then those of one subnet, then those at equal positions: the rails of hosts
// that are built alike. If these cannot talk, or one host has fewer NICs, the least used NIC that can takes
// the place. A NIC that fits none is in no pair, unless it has a partner by name, or the hosts have equally
// many NICs; nor is one without reliable connections (LinkKind::kOther). `full`: every NIC with every NIC.
// `subnet_bits`: NCCL_IB_SUBNET_PREFIX_LEN.
std::vector<NicPair> pairNics(const EndFacts& a, const EndFacts& b, bool full, int subnet_bits);

// Each NIC of `rails` (pairs of one match that reach each other) with the far NIC of the next rail of its
// link, the last one with that of the first: few pairs, and no rail is left out. Empty: there is one rail.
std::vector<NicPair> acrossRails(const EndFacts& a, const EndFacts& b, const std::vector<NicPair>& rails,
                                 int subnet_bits);

// What the pair test found. Plain values; thread-safe.

// How far the writes of one end got.
enum class Reach : uint8_t {
  kNotTried = 0,
  kNone = 1,       // not even 8 bytes
  kSmallOnly = 2,  // 8 bytes, but not 64 KiB: packets of full size are lost
  kAll = 3,
};

// What one end of a NIC pair found about its own writes to the other end.
struct Half {
  Reach reach = Reach::kNotTried;
  bool wrong_data = false;     // what the other end wrote did not arrive as it was sent
  std::string error;           // the failure of a queue pair or of a write; "": there was none
  double alone_gbytes = 0;     // GB/s while no other NIC of the hosts sends; 0: not measured
  double together_gbytes = 0;  // GB/s while all NICs send in both directions; 0: not measured
  double latency_us = 0;       // half the median round trip of 8 bytes; only the first end measures it
  bool operator==(const Half&) const = default;
};

struct PairResult : NicPair {
  Match match = {};
  std::array<Half, 2> halves;
};

// The upper one; 0: there are no values.
double medianOf(std::vector<double> values);

// NCCL's own cost model of all_reduce on as many hosts as are measured, all alike, with all their GPUs. An
// end that takes part makes it of its machine; the ends exchange it.
struct NcclModel {
  double gbytes = 0;       // GB/s of the bus that large messages approach; 0: not known
  double ring_gbytes = 0;  // GB/s that NCCL's rings take of the NICs
  std::vector<std::string> ring_nics;
  std::string text;       // "NCCL 2.30.7's model of 2 hosts with 8 GPUs each"
  std::string algorithm;  // "NVLSTree"
  std::string limit;      // a sentence

  bool operator==(const NcclModel&) const = default;
};

struct Results {
  std::vector<EndFacts> ends;
  std::vector<PairResult> pairs;
  std::vector<PairResult> across;  // NICs of different rails: only whether writes arrive
  int cross_nic = 2;               // NCCL_CROSS_NIC; who reports fills it in
  std::size_t rounds = 0;
  double seconds = 0;  // how long all of it took
  NcclModel nccl;
  std::string rules;  // whose rules and cost model, in words; "": the model does not say

  const NicFacts& nic(const PairResult& pair, std::size_t side) const {
    return ends[pair.match[side]].nics[pair.nics[side]];
  }
};

}  // namespace railwise::doctor::pair
