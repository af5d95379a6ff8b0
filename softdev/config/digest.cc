#include "softdev/config/digest.h"

#include <string_view>

namespace railwise::softdev {
namespace {

// FNV-1a. Each value ends with a byte of its own, so that neighbours do not run together.
class Digest {
 public:
  Digest& add(std::string_view text) {
    for (const char byte : text) take(static_cast<uint8_t>(byte));
    take(0xff);
    return *this;
  }
  Digest& add(uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8) take(static_cast<uint8_t>(number >> shift));
    return *this;
  }
  Digest& add(int32_t number) { return add(static_cast<uint64_t>(static_cast<uint32_t>(number))); }
  Digest& add(uint32_t number) { return add(uint64_t{number}); }
  Digest& add(bool flag) { return add(uint64_t{flag ? 1U : 0U}); }
  uint64_t value() const { return value_; }

 private:
  void take(uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3ULL; }

  uint64_t value_ = 0xcbf29ce484222325ULL;
};

void addPci(Digest& digest, const PciConfig& pci) {
  digest.add(pci.pci).add(pci.numa).add(pci.pcie_gen).add(pci.pcie_lanes).add(pci.pcie_mbps);
  digest.add(pci.vendor_id).add(pci.part_id);
}

void addGids(Digest& digest, const std::vector<Gid>& gids) {
  digest.add(uint64_t{gids.size()});
  for (const Gid& gid : gids) {
    digest.add(std::string_view(reinterpret_cast<const char*>(gid.raw), sizeof gid.raw)).add(gid.type);
  }
}

void addPort(Digest& digest, const PortConfig& port) {
  digest.add(port.speed_mbps).add(uint32_t{port.active_width}).add(uint32_t{port.active_speed});
  digest.add(uint32_t{port.link_layer}).add(port.iwarp).add(static_cast<uint32_t>(port.mtu));
  digest.add(port.active).add(port.latency_ns).add(port.rail).add(port.plane).add(port.netdev);
  addGids(digest, port.gids);
}

void addDevice(Digest& digest, const DeviceConfig& device) {
  addPci(digest, device);
  digest.add(device.name).add(device.guid).add(device.pcie_link).add(device.board).add(device.hca_type);
  digest.add(device.max_qp)
      .add(device.max_qp_wr)
      .add(device.max_sge)
      .add(device.max_cqe)
      .add(device.max_inline_bytes);
  digest.add(device.max_message_bytes).add(device.ece).add(device.ece_options).add(device.dmabuf);
  digest.add(device.atomics).add(device.engine).add(device.paced).add(device.adversarial);
  digest.add(static_cast<uint32_t>(device.mover)).add(static_cast<uint32_t>(device.gpudirect));
  digest.add(uint64_t{device.ports.size()});
  for (const PortConfig& port : device.ports) addPort(digest, port);
}

void addGpu(Digest& digest, const GpuConfig& gpu) {
  addPci(digest, gpu);
  digest.add(gpu.sm).add(uint64_t{gpu.nvlinks.size()});
  for (const NvlinkConfig& link : gpu.nvlinks) digest.add(link.target).add(link.count);
}

void addHost(Digest& digest, const HostConfig& host) {
  digest.add(host.described ? host.name : "").add(host.cpu).add(host.numa_nodes).add(host.cores);
  digest.add(uint64_t{host.devices.size()}).add(uint64_t{host.gpus.size()});
  digest.add(uint64_t{host.nvswitches.size()}).add(uint64_t{host.bridges.size()});
  for (const DeviceConfig& device : host.devices) addDevice(digest, device);
  for (const GpuConfig& gpu : host.gpus) addGpu(digest, gpu);
  for (const PciConfig& nvswitch : host.nvswitches) addPci(digest, nvswitch);
  for (const PciConfig& bridge : host.bridges) addPci(digest, bridge);
}

}  // namespace

uint64_t digestOf(const MachineConfig& machine) {
  Digest digest;
  digest.add(machine.seed).add(uint64_t{machine.faults.size()});
  for (const std::string& rule : machine.faults) digest.add(rule);
  for (const HostConfig& host : machine.hosts) addHost(digest, host);
  return digest.value();
}

}  // namespace railwise::softdev
