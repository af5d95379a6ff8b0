#include "gpu/topology.h"

#include <iterator>

#include "base/path_types.h"
#include "base/text/words.h"

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
  constexpr Named<GpuVendor> kNames[] = {{GpuVendor::kNvidia, "NVIDIA", ""}, {GpuVendor::kAmd, "AMD", ""}};
  return rowOf(kNames, vendor).words;
}

const char* gpuLinkKindName(GpuLinkKind kind) {
  constexpr Named<GpuLinkKind> kNames[] = {{GpuLinkKind::kNvlink, "NVLink", ""},
                                           {GpuLinkKind::kNvswitch, "NVSwitch", ""},
                                           {GpuLinkKind::kInfinityFabric, "InfinityFabric", ""},
                                           {GpuLinkKind::kXgmi, "xGMI", ""},
                                           {GpuLinkKind::kPcie, "PCIe", ""},
                                           {GpuLinkKind::kC2c, "C2C", ""}};
  return rowOf(kNames, kind).words;
}

const char* gpuLatencyName(GpuLatency latency) {
  constexpr Named<GpuLatency> kNames[] = {{GpuLatency::kPackage, "package", ""},
                                          {GpuLatency::kDirect, "direct", ""},
                                          {GpuLatency::kSwitched, "switched", ""},
                                          {GpuLatency::kHost, "host", ""}};
  return rowOf(kNames, latency).words;
}

}  // namespace railwise::topology
