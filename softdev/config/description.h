// The devices of this process, and the machines that the devices belong to, as the user described them. Plain
// values: nothing changes them after configure() has parsed the text (config.h).
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <string>
#include <vector>

#include "softdev/config/limits.h"

namespace railwise::softdev {

constexpr uint32_t kMaxDevices = 256;  // of one host
constexpr uint32_t kMaxHosts = 256;

enum class GidType : uint32_t { kIb, kRoceV1, kRoceV2 };
// How bytes reach another process. kAuto: the best mover that works for that peer.
enum class MoverChoice : uint32_t { kAuto, kVm, kMem, kRemap, kAgent };
// How the device claims to reach GPU memory. The claim changes nothing else: to the device, memory of a
// software GPU is memory of a process.
enum class GpuDirectChoice : uint32_t { kOff, kPeermem, kDmabuf, kOn };  // by address, by dma-buf, by both

struct PortConfig {
  uint32_t speed_mbps = 400000;
  uint8_t active_width = 2;     // 4x
  uint16_t active_speed = 128;  // NDR; 256 (XDR) does not fit the 8-bit active_speed of ibv_port_attr
  uint8_t link_layer = IBV_LINK_LAYER_ETHERNET;
  bool iwarp = false;
  ibv_mtu mtu = IBV_MTU_4096;
  bool active = true;
  uint32_t latency_ns = 0;  // latency of the path to any other port; used only with pacing
  int32_t rail = -1;        // -1: not given
  int32_t plane = -1;
  uint64_t guid = 0;  // completed: port 1 has the device's GUID, other ports have GUIDs derived from it
  std::vector<Gid> gids;
  std::vector<Gid> addresses;  // iWARP: completed; the connection manager finds the port by these
  std::string netdev;          // RoCE: completed; InfiniBand: ""
};

// A place in the PCI tree, for /sys.
struct PciConfig {
  std::string pci;        // a path below /sys, or ""
  int32_t numa = -1;      // NUMA node; -1: none
  uint32_t pcie_gen = 0;  // 0: not given
  uint32_t pcie_lanes = 0;
  uint32_t pcie_mbps = 0;  // speed of the link in each direction; 0: no limit
  uint32_t vendor_id = 0;  // 0: the usual vendor for this kind of function
  uint32_t part_id = 0;
  std::string busid() const;  // "0000:3b:00.0", or "" if `pci` does not end in a bus id
};

// NVML's name for the peer of an NVLink that the host does not see: an NVSwitch behind a hypervisor.
inline constexpr char kHiddenNvswitch[] = "fffffff:ffff:ff";
constexpr uint32_t kMaxNvlinks = 18;  // of one GPU, as NVML counts them (NVML_NVLINK_MAX_LINKS)

// The NVLinks between a GPU and one other device.
struct NvlinkConfig {
  std::string target;  // completed: bus id of a GPU or an NVSwitch of the host, or kHiddenNvswitch
  uint32_t count = 0;
  int line = 0;  // line of the text, for messages
};

struct GpuConfig : PciConfig {
  uint32_t sm = 90;  // compute capability times ten
  // Completed: sorted by target; a link between two GPUs is in the lists of both.
  std::vector<NvlinkConfig> nvlinks;

  uint32_t nvlinkCount() const;
  // The target of link number `link`. NVML numbers the links 0 to nvlinkCount() - 1; we number them in the
  // order of `nvlinks`.
  const std::string& nvlinkTarget(uint32_t link) const;
};

struct DeviceConfig : PciConfig {
  std::string name;
  std::string host;          // the host that the device belongs to
  uint64_t guid = 0;         // node GUID; completed
  uint64_t system_guid = 0;  // GUID of the card, equal for all functions of a slot; completed
  std::vector<PortConfig> ports{1};
  // Devices of a host with an equal pcie_link share its bandwidth; "": a link of its own.
  std::string pcie_link;
  std::string board = "railwise-software";
  std::string hca_type = "software";
  uint32_t max_qp = 16384;
  uint32_t max_qp_wr = kMaxQpWr;
  uint32_t max_sge = 16;
  uint32_t max_cqe = 1U << 18;
  uint32_t max_inline_bytes = 220;
  uint32_t max_message_bytes = 1U << 30;
  bool ece = true;  // `ece` and the fields down to `atomics`: what the device claims to support
  uint32_t ece_options = 0x1;
  bool dmabuf = true;
  bool atomics = true;
  bool engine = false;       // an engine thread executes posted work requests
  bool paced = false;        // port speed, PCIe link and latency are enforced
  bool adversarial = false;  // bytes are placed in the least convenient order that is legal
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
  // `number` counts from 1, as in verbs. Null if the device has no such port.
  const PortConfig* port(uint32_t number) const {
    return number >= 1 && number <= ports.size() ? &ports[number - 1] : nullptr;
  }
};

struct HostConfig {
  std::string name;
  bool described = false;   // a `host` stanza describes it; false: this computer, with default devices
  std::string cpu;          // "x86_64,GenuineIntel,6,143"; "": not given
  uint32_t numa_nodes = 0;  // 0: as many as the PCI functions name
  uint32_t cores = 0;       // cores of one NUMA node; completed
  std::vector<DeviceConfig> devices;
  std::vector<GpuConfig> gpus;
  std::vector<PciConfig> nvswitches;
  std::vector<PciConfig> bridges;  // only bridges that differ from the usual ones
};

// The limit of a fabric's name: the name is part of abstract unix socket names, which have at most 107
// characters.
inline constexpr size_t kMaxFabricName = 32;

// Everything that the text describes.
struct MachineConfig {
  std::string fabric = "default";
  bool fabric_named = false;  // false: neither the text nor RAILWISE_FABRIC names the fabric
  uint64_t digest = 0;        // of what the text describes (config.cc)
  uint64_t seed = 1;          // seed of faults and placement
  std::vector<std::string> faults;
  std::vector<HostConfig> hosts;  // at least one
  size_t chosen = 0;              // index of the host that this process plays

  const HostConfig& host() const { return hosts[chosen]; }
};

// The part of a MachineConfig that one process needs.
struct Config {
  std::string fabric = "default";
  bool fabric_named = false;
  uint64_t digest = 0;
  std::string host;
  uint64_t seed = 1;
  std::vector<std::string> faults;  // rules (fault_rule.h)
  std::vector<DeviceConfig> devices;
};

// Converts a port speed to the width and speed codes of verbs, with `lanes` lanes (0: any number). False if
// verbs has no such codes. Prefers speeds per lane up to NDR, because every program can read those.
bool speedCodes(uint32_t mbps, uint32_t lanes, uint8_t* width, uint16_t* speed);

const char* moverName(MoverChoice mover);
const char* gpuDirectName(GpuDirectChoice choice);

}  // namespace railwise::softdev
