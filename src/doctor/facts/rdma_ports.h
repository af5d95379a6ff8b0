// The RDMA ports of a machine as /sys has them. What the tree does not have is empty, 0 or -1. Plain values;
// thread-safe.
#pragma once

#include <string>
#include <vector>

#include "doctor/facts/system.h"

namespace railwise::doctor {

struct GidEntry {
  int index = 0;
  std::string value;      // "fe80:0000:...", as the kernel writes it
  std::string type;       // "RoCE v2", "IB/RoCE v1"; "": the kernel does not say
  std::string interface;  // "": the kernel does not say

  bool linkLocal() const { return value.starts_with("fe80"); }
  bool ipv4() const { return value.starts_with("0000:0000:0000:0000:0000:ffff:"); }
};

enum class PortState { kUnknown = -1, kNop = 0, kDown = 1, kInit = 2, kArmed = 3, kActive = 4 };

struct RdmaPort {
  std::string device;  // "mlx5_0"
  int number = 1;
  std::string folder;  // /sys/class/infiniband/mlx5_0/ports/1
  std::string label() const { return device + " port " + std::to_string(number); }

  PortState state = PortState::kUnknown;
  std::string physical;  // "3: Disabled"
  std::string layer;     // "InfiniBand", "Ethernet"; other words for vendors' own (EFA)
  bool iwarp = false;
  bool software = false;   // Soft-RoCE, soft-iWARP
  bool simulated = false;  // a device of Railwise's own software machines
  int rate_mbps = 0;
  int lanes = 0;
  int lid = -1;
  int sm_lid = -1;
  std::string interface;  // of RoCE: the network interface of the port
  int interface_mtu = 0;
  int active_mtu = 0;  // bytes; verbs has told
  int max_mtu = 0;
  std::string type;            // hca_type: "MT4129"
  std::string board;           // board_id
  std::string firmware;        // fw_ver
  std::string pci_path;        // real path of its PCI function
  std::vector<GidEntry> gids;  // without empty entries
  bool gids_known = false;
  bool left_out = false;  // NCCL_IB_HCA leaves it out
  bool named = false;     // NCCL_IB_HCA names it
  // A pod with SR-IOV sees the devices of its neighbours too: this container has no device node of it, and
  // has one of another device.
  bool not_given = false;
  std::string open_error;  // why verbs cannot open the device

  bool roce() const { return layer == "Ethernet" && !iwarp; }
  bool infiniband() const { return layer == "InfiniBand"; }
  bool active() const { return state == PortState::kActive; }
};

// Ports of one kind are alike on a healthy machine. What the tree does not tell fits every kind.
inline bool sameKind(const RdmaPort& a, const RdmaPort& b) {
  const auto fits = [](const std::string& x, const std::string& y) {
    return x.empty() || y.empty() || x == y;
  };
  return fits(a.type, b.type) && fits(a.board, b.board) && fits(a.layer, b.layer);
}

// "uverbs3" for "mlx5_3"; "": none.
std::string verbsNodeOf(const System& system, const std::string& device);

// In the order of names and numbers.
std::vector<RdmaPort> rdmaPorts(const System& system);

// The interface itself, or those that a bond is made of.
std::vector<std::string> physicalInterfaces(const System& system, const std::string& interface);

// "400 Gb/s".
std::string gbpsText(int mbps);

}  // namespace railwise::doctor
