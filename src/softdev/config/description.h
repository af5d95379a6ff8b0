// The devices of this process, and the machines they belong to, as the user described them. Plain values:
// nothing changes them after configure() has parsed the text (config.h).
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

#include "softdev/config/limits.h"

namespace railwise::softdev {

constexpr uint32_t kMaxDevices = 256;  // of a host
constexpr uint32_t kMaxHosts = 256;

enum class GidType : uint32_t { kIb, kRoceV1, kRoceV2 };
// How bytes reach another process; kAuto: the best that works for that peer.
enum class MoverChoice : uint32_t { kAuto, kVm, kMem, kRemap, kAgent };
// How the device says that it reaches GPU memory. Nothing else follows: to the device, memory of a software
// GPU is memory of a process.
enum class GpuDirectChoice : uint32_t { kOff, kPeermem, kDmabuf, kOn };  // by address, by dma-buf, by both

struct PortConfig {
  uint32_t speed_mbps = 400000;
  uint8_t active_width = 2;     // 4x
  uint16_t active_speed = 128;  // NDR; 256 (XDR) does not fit the ABI's first field
  uint8_t link_layer = IBV_LINK_LAYER_ETHERNET;
  bool iwarp = false;
  ibv_mtu mtu = IBV_MTU_4096;
  bool active = true;
  uint32_t latency_ns = 0;  // of the way to any other port; counts when pacing is on
  int32_t rail = -1;        // -1: not told
  int32_t plane = -1;
  uint64_t guid = 0;  // completed: the device's for port 1, derived from it for the others
  std::vector<Gid> gids;
  std::vector<Gid> addresses;  // iWARP: completed; where the connection manager finds the port
  std::string netdev;          // RoCE: completed; InfiniBand: ""
};

// A place in the PCI tree, for /sys.
struct PciConfig {
  std::string pci;        // "" or a path below /sys
  int32_t numa = -1;      // NUMA node; -1: none
  uint32_t pcie_gen = 0;  // 0: not told
  uint32_t pcie_lanes = 0;
  uint32_t pcie_mbps = 0;  // what the link carries in each direction; 0: no limit
  uint32_t vendor_id = 0;  // 0: the usual for its kind
  uint32_t part_id = 0;
  std::string busid() const;  // "0000:3b:00.0", or "" when `pci` does not end so
};

// What NVML calls the other end of an NVLink when the host does not see it: an NVSwitch behind a hypervisor.
inline constexpr char kHiddenNvswitch[] = "fffffff:ffff:ff";
constexpr uint32_t kMaxNvlinks = 18;  // of a GPU, as NVML counts them (NVML_NVLINK_MAX_LINKS)

// The NVLinks between a GPU and one other device.
struct NvlinkConfig {
  std::string target;  // completed: bus id of a GPU or an NVSwitch of the host, or kHiddenNvswitch
  uint32_t count = 0;
  int line = 0;  // of the text, for messages
};

struct GpuConfig : PciConfig {
  uint32_t sm = 90;                   // compute capability times ten
  std::vector<NvlinkConfig> nvlinks;  // completed: by target; a link between GPUs is in both lists

  uint32_t nvlinkCount() const;
  // The target of one link, as NVML numbers them: 0 to nvlinkCount() - 1, in the order of `nvlinks`.
  const std::string& nvlinkTarget(uint32_t link) const;
};

struct DeviceConfig : PciConfig {
  std::string name;
  std::string host;          // of the machine it belongs to
  uint64_t guid = 0;         // node GUID; completed
  uint64_t system_guid = 0;  // of the card: the same for all functions of a slot; completed
  std::vector<PortConfig> ports{1};
  std::string pcie_link;  // devices of a host with the same name share its bandwidth; "": its own link
  std::string board = "railwise-software";
  std::string hca_type = "software";
  uint32_t max_qp = 16384;
  uint32_t max_sge = 16;
  uint32_t max_cqe = 1U << 18;
  uint32_t max_inline_bytes = 220;
  uint32_t max_message_bytes = 1U << 30;
  bool ece = true;  // what the device says it can do
  uint32_t ece_options = 0x1;
  bool dmabuf = true;
  bool atomics = true;
  bool engine = false;       // an engine thread executes what is posted
  bool paced = false;        // port speed, PCIe link and latency are enforced
  bool adversarial = false;  // bytes are placed in the least convenient legal order
  MoverChoice mover = MoverChoice::kAuto;
  GpuDirectChoice gpudirect = GpuDirectChoice::kOff;

  bool iwarp() const { return ports[0].iwarp; }
  bool gpuByAddress() const {
    return gpudirect == GpuDirectChoice::kPeermem || gpudirect == GpuDirectChoice::kOn;
  }
  bool gpuByDmabuf() const {
    return dmabuf && (gpudirect == GpuDirectChoice::kDmabuf || gpudirect == GpuDirectChoice::kOn);
  }
  uint32_t portCount() const { return static_cast<uint32_t>(ports.size()); }
  // `number` as in verbs: 1 is the first. Null when there is none.
  const PortConfig* port(uint32_t number) const {
    return number >= 1 && number <= ports.size() ? &ports[number - 1] : nullptr;
  }
};

struct HostConfig {
  std::string name;
  bool described = false;   // by a `host` stanza; else the computer itself with devices of our own
  std::string cpu;          // "x86_64,GenuineIntel,6,143"; "": not told
  uint32_t numa_nodes = 0;  // 0: as many as the functions name
  uint32_t cores = 0;       // of a NUMA node; completed
  std::vector<DeviceConfig> devices;
  std::vector<GpuConfig> gpus;
  std::vector<PciConfig> nvswitches;
  std::vector<PciConfig> bridges;  // only those that differ from the usual
};

// It is part of the names of abstract unix sockets, which have 107 characters.
inline constexpr size_t kMaxFabricName = 32;

// Everything that the text describes.
struct MachineConfig {
  std::string fabric = "default";
  uint64_t seed = 1;  // of faults and placement
  std::vector<std::string> faults;
  std::vector<HostConfig> hosts;  // one at least
  size_t chosen = 0;              // the host that this process plays

  const HostConfig& host() const { return hosts[chosen]; }
};

// What one process needs of it.
struct Config {
  std::string fabric = "default";
  std::string host;
  uint64_t seed = 1;
  std::vector<std::string> faults;  // rules (fault_rule.h)
  std::vector<DeviceConfig> devices;
};

// Width and speed codes of verbs for a port speed, with `lanes` (0: any); false when verbs has none. Speeds
// up to NDR lanes are preferred: every program can read those.
bool speedCodes(uint32_t mbps, uint32_t lanes, uint8_t* width, uint16_t* speed);

const char* moverName(MoverChoice mover);
const char* gpuDirectName(GpuDirectChoice choice);

}  // namespace railwise::softdev
