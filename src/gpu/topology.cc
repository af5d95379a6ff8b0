#include "gpu/topology.h"

#include <iterator>

#include "base/path_types.h"

namespace railwise::topology {

// The public enum has the types of the table, in its order.
#define RAILWISE_AS_PUBLIC(value, name, since, meaning) PathType::value,
constexpr PathType kTypes[] = {RAILWISE_PATH_TYPES(RAILWISE_AS_PUBLIC)};
#undef RAILWISE_AS_PUBLIC
static_assert(std::size(kTypes) == static_cast<std::size_t>(PathType::kDis) + 1);

const char* pathTypeName(PathType type) {
#define RAILWISE_NAME(value, name, since, meaning) name,
  constexpr const char* kNames[] = {RAILWISE_PATH_TYPES(RAILWISE_NAME)};
#undef RAILWISE_NAME
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
