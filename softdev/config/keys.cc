#include "softdev/config/keys.h"

#include "softdev/config/fault_rule.h"
#include "softdev/config/values.h"

namespace railwise::softdev {
namespace {

constexpr int32_t kMaxRail = 4095;
constexpr int32_t kMaxNuma = 255;

bool parseOptional(std::string_view text, std::optional<bool>* value) {
  bool on = false;
  if (!parseOnOff(text, &on)) return false;
  *value = on;
  return true;
}

constexpr Key<ModeConfig> kModeKeys[] = {
    {"engine", "on or off", [](ModeConfig& m, std::string_view v) { return parseOptional(v, &m.engine); }},
    {"pacing", "on or off", [](ModeConfig& m, std::string_view v) { return parseOptional(v, &m.pacing); }},
    {"adversarial", "on or off",
     [](ModeConfig& m, std::string_view v) { return parseOptional(v, &m.adversarial); }},
    {"mover", "auto, vm, mem, remap or agent",
     [](ModeConfig& m, std::string_view v) { return parseMover(v, &m.mover.emplace()); }},
    {"gpudirect", "on, off, peermem or dmabuf",
     [](ModeConfig& m, std::string_view v) { return parseGpuDirect(v, &m.gpudirect.emplace()); }},
    {"latency_ns", "nanoseconds from 0 to 1000000000",
     [](ModeConfig& m, std::string_view v) {
       return parseNumber(v, 0, 1000000000, &m.latency_ns.emplace());
     }},
};

constexpr Key<PortDraft> kPortKeys[] = {
    {"speed", "Mb/s that verbs has a code for: " RAILWISE_SOFTDEV_SPEEDS,
     [](PortDraft& p, std::string_view v) {
       return parseNumber(v, 1, UINT32_MAX, &p.port.speed_mbps) &&
              speedCodes(p.port.speed_mbps, 0, &p.port.active_width, &p.port.active_speed);
     }},
    {"width", "lanes: 1, 2, 4, 8 or 12",
     [](PortDraft& p, std::string_view v) {
       return parseNumber(v, 1, 12, &p.lanes) &&
              (p.lanes == 1 || p.lanes == 2 || p.lanes == 4 || p.lanes == 8 || p.lanes == 12);
     }},
    {"link", "roce (or ethernet), ib (or infiniband) or iwarp",
     [](PortDraft& p, std::string_view v) { return parseLink(v, &p.port.link_layer, &p.port.iwarp); }},
    {"mtu", "256, 512, 1024, 2048 or 4096 bytes",
     [](PortDraft& p, std::string_view v) { return parseMtu(v, &p.port.mtu); }},
    {"gid", "an IPv6 or IPv4 address, then /ib, /v1 or /v2 if wanted; at most 16 of them",
     [](PortDraft& p, std::string_view v) { return parseGid(v, &p.port.gids); }},
    {"port_state", "active or down",
     [](PortDraft& p, std::string_view v) {
       p.port.active = v == "active";
       return v == "active" || v == "down";
     }},
    {"rail", "a number from 0 to 4095",
     [](PortDraft& p, std::string_view v) { return parseSmall(v, kMaxRail, &p.port.rail); }},
    {"plane", "a number from 0 to 4095",
     [](PortDraft& p, std::string_view v) { return parseSmall(v, kMaxRail, &p.port.plane); }},
    {"netdev", "1 to 15 letters, digits, '_', '-' or '.'",
     [](PortDraft& p, std::string_view v) { return parseName(v, 15, &p.port.netdev); }},
};

bool switchOf(bool DeviceConfig::*field, DeviceDraft& draft, std::string_view value) {
  return parseOnOff(value, &(draft.device.*field));
}

constexpr Key<DeviceDraft> kDeviceKeys[] = {
    {"name", "1 to 60 letters, digits, '_', '-' or '.'",
     [](DeviceDraft& d, std::string_view v) { return parseName(v, 60, &d.device.name); }},
    {"like", "a driver: " RAILWISE_SOFTDEV_DRIVERS,
     [](DeviceDraft& d, std::string_view v) { return makeLike(v, d.device); }},
    {"count", "a number from 1 to 256",
     [](DeviceDraft& d, std::string_view v) { return parseNumber(v, 1, kMaxDevices, &d.count); }},
    {"ports", "a number from 1 to 4",
     [](DeviceDraft& d, std::string_view v) { return parseNumber(v, 1, kMaxDevicePorts, &d.ports); }},
    {"guid", "16 hexadecimal digits other than all 0, ':' allowed between bytes",
     [](DeviceDraft& d, std::string_view v) { return parseGuid(v, &d.device.guid); }},
    {"pcie_link", "1 to 31 letters, digits, '_', '-' or '.'",
     [](DeviceDraft& d, std::string_view v) { return parseName(v, 31, &d.device.pcie_link); }},
    {"board", "1 to 63 letters, digits, '_', '-' or '.'",
     [](DeviceDraft& d, std::string_view v) { return parseName(v, 63, &d.device.board); }},
    {"hca_type", "1 to 63 letters, digits, '_', '-' or '.'",
     [](DeviceDraft& d, std::string_view v) { return parseName(v, 63, &d.device.hca_type); }},
    {"max_qp", "a number from 1 to 32000",
     [](DeviceDraft& d, std::string_view v) { return parseNumber(v, 1, 32000, &d.device.max_qp); }},
    {"max_qp_wr", "a number from 1 to 16384",
     [](DeviceDraft& d, std::string_view v) { return parseNumber(v, 1, kMaxQpWr, &d.device.max_qp_wr); }},
    {"max_sge", "a number from 1 to 16",
     [](DeviceDraft& d, std::string_view v) { return parseNumber(v, 1, 16, &d.device.max_sge); }},
    {"max_cqe", "a number from 1 to 262144",
     [](DeviceDraft& d, std::string_view v) { return parseNumber(v, 1, 1U << 18, &d.device.max_cqe); }},
    {"max_inline", "bytes from 0 to 4096",
     [](DeviceDraft& d, std::string_view v) { return parseNumber(v, 0, 4096, &d.device.max_inline_bytes); }},
    {"max_msg", "bytes from 1 to 2147483648",
     [](DeviceDraft& d, std::string_view v) {
       return parseNumber(v, 1, 1U << 31, &d.device.max_message_bytes);
     }},
    {"ece", "on, off or the options it offers like 0x3",
     [](DeviceDraft& d, std::string_view v) {
       uint64_t options = 0;
       if (!v.starts_with("0x")) return switchOf(&DeviceConfig::ece, d, v);
       if (!parseNumber64(v, &options) || options > UINT32_MAX) return false;
       d.device.ece = true;
       d.device.ece_options = static_cast<uint32_t>(options);
       return true;
     }},
    {"dmabuf", "on or off",
     [](DeviceDraft& d, std::string_view v) { return switchOf(&DeviceConfig::dmabuf, d, v); }},
    {"atomics", "on or off",
     [](DeviceDraft& d, std::string_view v) { return switchOf(&DeviceConfig::atomics, d, v); }},
};

constexpr char kPciForm[] =
    "a PCI address like 0000:3b:00.0, addresses from the root port down like 0000:16:01.0/17:00.0, or a path "
    "that begins with /sys/";

template <bool here>
bool applyPci(PciConfig& p, std::string_view v) {
  return parsePci(v, here, &p.pci);
}

constexpr Key<PciConfig> kPciKeys[] = {
    {"pci", kPciForm, applyPci<true>},
    {"numa", "a NUMA node from 0 to 255",
     [](PciConfig& p, std::string_view v) { return parseSmall(v, kMaxNuma, &p.numa); }},
    {"pcie", "generation and lanes like 5x16, or Mb/s",
     [](PciConfig& p, std::string_view v) { return parsePcie(v, &p); }},
    {"vendor", "a PCI vendor id like 0x15b3",
     [](PciConfig& p, std::string_view v) { return parseHex16(v, &p.vendor_id); }},
    {"part", "a PCI device id like 0x1021",
     [](PciConfig& p, std::string_view v) { return parseHex16(v, &p.part_id); }},
    {"pci", kPciForm, applyPci<false>},
};

constexpr Key<GpuConfig> kGpuKeys[] = {
    {"sm", "the compute capability times ten, like 90, from 10 to 999",
     [](GpuConfig& g, std::string_view v) { return parseNumber(v, 10, 999, &g.sm); }},
    {"nvlink",
     "switch:COUNT or the address of a GPU or NVSwitch and a count like 0000:1b:00.0:2; 1 to 18 links",
     [](GpuConfig& g, std::string_view v) { return parseNvlink(v, &g.nvlinks.emplace_back()); }},
};

constexpr Key<HostDraft> kHostKeys[] = {
    {"like", "the name of a host above",
     [](HostDraft& h, std::string_view v) { return parseName(v, 60, &h.like); }},
    {"cpu", "arm64, ppc64, or x86_64/VENDOR/FAMILY/MODEL like x86_64/GenuineIntel/6/143",
     [](HostDraft& h, std::string_view v) { return parseCpu(v, &h.host.cpu); }},
    {"numa_nodes", "a number from 1 to 256",
     [](HostDraft& h, std::string_view v) { return parseNumber(v, 1, kMaxNuma + 1, &h.host.numa_nodes); }},
    {"cores", "processors of a NUMA node, from 1 to 256",
     [](HostDraft& h, std::string_view v) { return parseNumber(v, 1, 256, &h.host.cores); }},
};

constexpr Key<MachineConfig> kProcessKeys[] = {
    {"seed", "a number, decimal or 0x and hexadecimal digits",
     [](MachineConfig& m, std::string_view v) { return parseNumber64(v, &m.seed); }},
    {"fault", "a rule (railwise device fault --help)",
     [](MachineConfig& m, std::string_view v) {
       m.faults.emplace_back(v);
       return parseFaultRule(v).ok();
     }},
};

}  // namespace

std::span<const Key<ModeConfig>> modeKeys() { return kModeKeys; }
std::span<const Key<PortDraft>> portKeys() { return kPortKeys; }
std::span<const Key<DeviceDraft>> deviceKeys() { return kDeviceKeys; }
std::span<const Key<GpuConfig>> gpuKeys() { return kGpuKeys; }
std::span<const Key<HostDraft>> hostKeys() { return kHostKeys; }
std::span<const Key<MachineConfig>> processKeys() { return kProcessKeys; }

// The first `pci` key looks the address up in this computer; the last one does not.
std::span<const Key<PciConfig>> pciKeys(bool described) {
  const std::span<const Key<PciConfig>> all = kPciKeys;
  return described ? all.subspan(1) : all.first(all.size() - 1);
}

}  // namespace railwise::softdev
