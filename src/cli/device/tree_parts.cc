#include <algorithm>
#include <iterator>

#include "base/pci.h"
#include "base/text/words.h"
#include "cli/device/tree.h"
#include "cli/options/message.h"
#include "softdev/config/values.h"

namespace railwise::cli {
namespace {

constexpr uint32_t kRailwiseVendor = 0x5257;  // the value that verbs reports too; it is no PCI vendor's id
constexpr uint32_t kNvidia = 0x10de;
constexpr uint32_t kAmd = 0x1002;
constexpr uint32_t kIntel = 0x8086;
constexpr uint32_t kBroadcom = 0x1000;

// What the libraries say of GPUs that machines have, by PCI device id.
struct GpuModel {
  uint32_t part;
  const char* name;
  uint64_t memory_mib;
  const char* architecture;  // of AMD's GPUs
};
constexpr GpuModel kGpuModels[] = {
    {0x1db1, "Tesla V100-SXM2-16GB", 16160, ""},      {0x20b2, "NVIDIA A100-SXM4-80GB", 81920, ""},
    {0x20b5, "NVIDIA A100 80GB PCIe", 81920, ""},     {0x2330, "NVIDIA H100 80GB HBM3", 81559, ""},
    {0x740c, "AMD Instinct MI250X", 65520, "gfx90a"}, {0x74a1, "AMD Instinct MI300X", 196592, "gfx942"}};

// MB/s of one NVLink in one direction as NVML reports it, and its version; of the last row that is not newer
// than the GPU.
struct NvlinkRate {
  uint32_t sm;
  double mbps;
  int version;
};
constexpr NvlinkRate kNvlinkRates[] = {
    {60, 19531, 1}, {70, 25781, 2}, {80, 25000, 3}, {90, 26562, 4}, {100, 53125, 5}};

constexpr uint32_t kUsualLanes = 16;

std::string hex4(uint32_t number) { return textOf("0x%04x", number); }

const PcieGeneration& generationOf(uint32_t number) {
  return kPcieGenerations[std::clamp<std::size_t>(number, 1, kPcieGenerations.size()) - 1];
}

// The oldest PCIe generation, from 3.0 on, whose x16 link carries `mbps`.
uint32_t generationFor(uint64_t mbps) {
  uint32_t gen = 3;
  while (gen < kPcieGenerations.size() && uint64_t{generationOf(gen).lane_mbps} * kUsualLanes < mbps) ++gen;
  return gen;
}

void setLink(PciFunction& function, const softdev::PciConfig& config, uint64_t needed_mbps) {
  function.gen = config.pcie_gen;
  function.lanes = config.pcie_lanes;
  if (function.gen != 0) return;
  function.gen = generationFor(config.pcie_mbps != 0 ? config.pcie_mbps : needed_mbps);
  function.lanes = kUsualLanes;
}

// "400 Gb/sec (4X NDR)", in the format of the kernel's ib_port_sysfs.
std::string rateText(const softdev::PortConfig& port) {
  static constexpr std::pair<int, const char*> kSpeeds[] = {
      {2, " DDR"}, {4, " QDR"}, {16, " FDR"}, {32, " EDR"}, {64, " HDR"}, {128, " NDR"}, {256, " XDR"}};
  const char* const speed = nameIn(kSpeeds, int{port.active_speed}, "");
  unsigned lanes = 1;
  for (const auto& [code, count] : {std::pair{2U, 4U}, {4U, 8U}, {8U, 12U}, {16U, 2U}})
    if (port.active_width == code) lanes = count;
  const uint32_t tenths = port.speed_mbps / 100;
  const std::string number =
      std::to_string(tenths / 10) + (tenths % 10 != 0 ? "." + std::to_string(tenths % 10) : "");
  return number + textOf(" Gb/sec (%uX%s)", lanes, speed);
}

}  // namespace

gpu::Device gpuAnswer(const softdev::GpuConfig& gpu, int index) {
  const PciFunction function = gpuFunction(gpu);
  gpu::Device device;
  device.index = device.vendor_index = index;
  device.vendor = function.vendor == kAmd ? gpu::Vendor::kAmd : gpu::Vendor::kNvidia;
  device.busid = gpu.busid();
  device.numa = gpu.numa;
  device.driver = "railwise-" RAILWISE_VERSION;
  device.memory_used_bytes = 0;
  device.utilisation_percent = device.processes = 0;
  for (const GpuModel& model : kGpuModels) {
    if (model.part != function.device) continue;
    device.model = model.name;
    device.memory_bytes = model.memory_mib << 20;
    device.architecture = model.architecture;
  }
  if (device.vendor == gpu::Vendor::kAmd) return device;
  device.sm = static_cast<int>(gpu.sm);
  device.architecture = textOf("%d.%d", device.sm / 10, device.sm % 10);
  return device;
}

gpu::Link linkAnswer(const softdev::NvlinkConfig& link, const softdev::GpuConfig& gpu, int index) {
  gpu::Link answer;
  answer.from = index;
  // NVML does not know the address of a switch that is hidden.
  if (link.target != softdev::kHiddenNvswitch) answer.to_busid = link.target;
  answer.kind = gpu::LinkKind::kNvswitch;
  answer.latency = gpu::LatencyClass::kSwitched;
  answer.width = static_cast<int>(link.count);
  for (const NvlinkRate& rate : kNvlinkRates) {
    if (rate.sm > gpu.sm) break;
    answer.version = rate.version;
    answer.gb_per_s = answer.width * rate.mbps / 1000;
  }
  return answer;
}

PciFunction gpuFunction(const softdev::PciConfig& gpu) {
  PciFunction function;
  function.class_code = 0x030200;
  function.vendor = gpu.vendor_id != 0 ? gpu.vendor_id : kNvidia;
  function.device = gpu.part_id != 0 ? gpu.part_id : 0x2330;
  if (function.vendor == kAmd) function.class_code = 0x120000;  // the class of an accelerator
  function.numa = gpu.numa;
  function.driver = function.vendor == kAmd ? "amdgpu" : "nvidia";
  setLink(function, gpu, uint64_t{generationOf(4).lane_mbps} * kUsualLanes);
  return function;
}

PciFunction nvswitchFunction(const softdev::PciConfig& nvswitch) {
  PciFunction function;
  function.class_code = 0x068000;  // NCCL recognises an NVSwitch by this class
  function.vendor = nvswitch.vendor_id != 0 ? nvswitch.vendor_id : kNvidia;
  function.device = nvswitch.part_id != 0 ? nvswitch.part_id : 0x22a3;
  function.numa = nvswitch.numa;
  function.driver = "nvidia-nvswitch";
  setLink(function, nvswitch, 0);
  return function;
}

PciFunction nicFunction(const softdev::DeviceConfig& device) {
  PciFunction function;
  const bool infiniband = device.ports[0].link_layer == IBV_LINK_LAYER_INFINIBAND;
  function.class_code = infiniband ? 0x020700 : 0x020000;
  function.vendor = device.vendor_id != 0 ? device.vendor_id : kRailwiseVendor;
  function.device = device.part_id != 0 ? device.part_id : 1;
  function.numa = device.numa;
  constexpr uint32_t kMellanox = 0x15b3;
  function.driver = function.vendor == kMellanox ? "mlx5_core" : "railwise";
  uint64_t mbps = 0;
  for (const softdev::PortConfig& port : device.ports) mbps += port.speed_mbps;
  setLink(function, device, mbps);
  return function;
}

void describeBridge(PciFunction& bridge, bool is_root_port, const softdev::PciConfig* told) {
  bridge.class_code = 0x060400;
  bridge.vendor = is_root_port ? kIntel : kBroadcom;
  bridge.device = is_root_port ? 0x352a : 0xc030;
  bridge.driver = "pcieport";
  if (told == nullptr) return;
  if (told->vendor_id != 0) bridge.vendor = told->vendor_id;
  if (told->part_id != 0) bridge.device = told->part_id;
  if (told->numa >= 0) bridge.numa = told->numa;
  if (told->pcie_gen != 0 || told->pcie_mbps != 0) setLink(bridge, *told, 0);
}

Files functionFiles(const PciFunction& function, const std::string& busid) {
  const std::string speed = generationOf(function.gen).text;
  const std::string lanes = std::to_string(function.lanes);
  return {{"class", textOf("0x%06x", function.class_code)},
          {"vendor", hex4(function.vendor)},
          {"device", hex4(function.device)},
          {"subsystem_vendor", hex4(function.vendor)},
          {"subsystem_device", hex4(function.device)},
          {"revision", "0x00"},
          {"enable", "1"},
          {"numa_node", std::to_string(function.numa)},
          {"max_link_speed", speed},
          {"max_link_width", lanes},
          {"current_link_speed", speed},
          {"current_link_width", lanes},
          {"uevent",
           textOf("DRIVER=%s\nPCI_CLASS=%X\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=%04X:%04X\nPCI_SLOT_NAME=%s",
                  function.driver, function.class_code, function.vendor, function.device, function.vendor,
                  function.device, busid.c_str())}};
}

Files deviceFiles(const softdev::DeviceConfig& device) {
  return {{"node_type", device.iwarp() ? "4: RNIC" : "1: CA"},
          {"node_guid", softdev::sysGuidText(device.guid)},
          {"sys_image_guid", softdev::sysGuidText(device.system_guid)},
          {"node_desc", device.host + " " + device.name},
          {"fw_ver", "railwise-" RAILWISE_VERSION},
          {"hw_rev", "1"},
          {"hca_type", device.hca_type},
          {"board_id", device.board}};
}

Files portFiles(const softdev::PortConfig& port) {
  const bool infiniband = port.link_layer == IBV_LINK_LAYER_INFINIBAND;
  Files files = {{"state", port.active ? "4: ACTIVE" : "1: DOWN"},
                 {"phys_state", port.active ? "5: LinkUp" : "3: Disabled"},
                 {"rate", rateText(port)},
                 {"link_layer", infiniband ? "InfiniBand" : "Ethernet"},
                 {"lid", "0x0"},  // the fabric assigns the LID when it runs
                 {"lid_mask_count", "0"},
                 {"sm_lid", "0x0"},
                 {"sm_sl", "0"},
                 {"cap_mask", infiniband || port.iwarp ? "0x00000000" : "0x04010000"},
                 {"pkeys/0", "0xffff"}};
  for (size_t i = 0; i < port.gids.size(); ++i) {
    const softdev::Gid& gid = port.gids[i];
    const bool v2 = gid.type == static_cast<uint32_t>(softdev::GidType::kRoceV2);
    files.emplace_back("gids/" + std::to_string(i), softdev::sysGidText(gid.raw));
    files.emplace_back("gid_attrs/types/" + std::to_string(i), v2 ? "RoCE v2" : "IB/RoCE v1");
    if (!infiniband) files.emplace_back("gid_attrs/ndevs/" + std::to_string(i), port.netdev);
  }
  return files;
}

Files interfaceFiles(const softdev::PortConfig& port, uint32_t number) {
  constexpr unsigned kEthernet = 1;  // ARPHRD_ETHER
  constexpr unsigned kJumbo = 9000;
  std::string address;  // made of six of the GUID's eight bytes: the first three and the last three
  for (const unsigned shift : {56, 48, 40, 16, 8, 0})
    address += textOf("%s%02x", address.empty() ? "" : ":", static_cast<unsigned>(port.guid >> shift & 0xff));
  return {{"address", address},
          {"type", std::to_string(kEthernet)},
          {"speed", std::to_string(port.speed_mbps)},
          {"duplex", "full"},
          {"mtu", std::to_string(kJumbo)},
          {"operstate", port.active ? "up" : "down"},
          {"carrier", port.active ? "1" : "0"},
          {"dev_id", "0x0"},
          {"dev_port", std::to_string(number - 1)}};
}

std::string cpuList(uint32_t node, uint32_t cores) {
  const std::string first = std::to_string(node * cores);
  return cores > 1 ? first + "-" + std::to_string((node + 1) * cores - 1) : first;
}

std::string cpuMask(uint32_t node, const softdev::HostConfig& host) {
  constexpr uint32_t kBits = 32;
  const uint32_t words = (host.numa_nodes * host.cores + kBits - 1) / kBits;
  std::string mask;
  for (uint32_t word = words; word-- > 0;) {
    uint32_t bits = 0;
    for (uint32_t bit = 0; bit < kBits; ++bit)
      if ((word * kBits + bit) / host.cores == node) bits |= 1U << bit;
    mask += textOf("%s%08x", mask.empty() ? "" : ",", bits);
  }
  return mask;
}

}  // namespace railwise::cli
