// What an end of the pair test says of itself before anything is measured: its host and its NICs. Plain
// values; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "verbs/gid.h"

namespace railwise::doctor::pair {

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

}  // namespace railwise::doctor::pair
