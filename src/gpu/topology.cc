#include "gpu/topology.h"

#include <iterator>

namespace railwise::topology {

const char* pathTypeName(PathType type) {
  constexpr const char* kNames[] = {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB",
                                    "P2C", "PXN", "PHB", "SYS", "NET", "DIS"};
  const auto number = static_cast<std::size_t>(type);
  return number < std::size(kNames) ? kNames[number] : "?";
}

const char* gpuVendorName(GpuVendor vendor) {
  switch (vendor) {
    case GpuVendor::kNvidia:
      return "NVIDIA";
    case GpuVendor::kAmd:
      return "AMD";
  }
  return "unknown";
}

const char* gpuLinkKindName(GpuLinkKind kind) {
  switch (kind) {
    case GpuLinkKind::kNvlink:
      return "NVLink";
    case GpuLinkKind::kNvswitch:
      return "NVSwitch";
    case GpuLinkKind::kInfinityFabric:
      return "InfinityFabric";
    case GpuLinkKind::kXgmi:
      return "xGMI";
    case GpuLinkKind::kPcie:
      return "PCIe";
    case GpuLinkKind::kC2c:
      return "C2C";
  }
  return "unknown";
}

const char* gpuLatencyName(GpuLatency latency) {
  switch (latency) {
    case GpuLatency::kPackage:
      return "package";
    case GpuLatency::kDirect:
      return "direct";
    case GpuLatency::kSwitched:
      return "switched";
    case GpuLatency::kHost:
      return "host";
  }
  return "unknown";
}

}  // namespace railwise::topology
