#include "gpu/topology.h"

namespace railwise::gpu {

const char* vendorName(Vendor vendor) {
  switch (vendor) {
    case Vendor::kNvidia:
      return "NVIDIA";
    case Vendor::kAmd:
      return "AMD";
  }
  return "unknown";
}

const char* linkKindName(LinkKind kind) {
  switch (kind) {
    case LinkKind::kNvlink:
      return "NVLink";
    case LinkKind::kNvswitch:
      return "NVSwitch";
    case LinkKind::kInfinityFabric:
      return "InfinityFabric";
    case LinkKind::kXgmi:
      return "xGMI";
    case LinkKind::kPcie:
      return "PCIe";
  }
  return "unknown";
}

const char* latencyClassName(LatencyClass latency) {
  switch (latency) {
    case LatencyClass::kPackage:
      return "package";
    case LatencyClass::kDirect:
      return "direct";
    case LatencyClass::kSwitched:
      return "switched";
    case LatencyClass::kHost:
      return "host";
  }
  return "unknown";
}

}  // namespace railwise::gpu
