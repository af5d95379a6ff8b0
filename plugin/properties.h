// Converts DeviceProperties to ncclNetProperties_vX of any version. NCCL passes an uninitialised struct, so
// every field of that version is written.
#pragma once

#include <algorithm>
#include <iterator>

#include "nccl/net_device.h"
#include "nccl/types.h"
#include "net/device/device.h"
#include "net/net.h"

namespace railwise::plugin {

static_assert(net::kHostPointers == NCCL_PTR_HOST);
static_assert(net::kDevicePointers == NCCL_PTR_CUDA);
static_assert(net::kDmaBufPointers == NCCL_PTR_DMABUF);

template <typename Properties>
void fillProperties(const net::Device& device, Properties& to) {
  const net::DeviceProperties& from = device.properties();
  to = {};
  to.name = const_cast<char*>(from.name);
  to.pciPath = const_cast<char*>(from.pci_path);
  to.guid = from.guid;
  to.ptrSupport = from.pointer_support;
  to.speed = from.speed_mbps;
  to.port = from.port;
  to.latency = from.latency_us;
  to.maxComms = from.max_connections;
  to.maxRecvs = net::kMaxReceives;
  if constexpr (requires { to.netDeviceType; }) {
    to.netDeviceType = NCCL_NET_DEVICE_HOST;
    to.netDeviceVersion = NCCL_NET_DEVICE_INVALID_VERSION;
  }
  if constexpr (requires { to.regIsGlobal; })
    to.regIsGlobal = 1;  // a registration is valid for every connection of the device
  if constexpr (requires { to.forceFlush; }) to.forceFlush = from.force_flush ? 1 : 0;
  if constexpr (requires { to.vProps; }) {
    constexpr std::size_t kMost = std::size(decltype(to.vProps.devs){});
    const std::size_t count = std::min(device.members().size(), kMost);
    to.vProps.ndevs = static_cast<int>(count);
    std::copy_n(device.members().begin(), count, to.vProps.devs);
    to.maxP2pBytes = from.max_message_bytes;
    to.maxCollBytes = from.max_message_bytes;
  }
  if constexpr (requires { to.maxMultiRequestSize; }) to.maxMultiRequestSize = 1;
  if constexpr (requires { to.railId; }) {
    if (const net::Net* net = net::Net::current()) (void)net->paths();  // they set the rails
    to.railId = static_cast<decltype(to.railId)>(from.rail);
    to.planeId = static_cast<decltype(to.planeId)>(from.plane);
  }
}

// The device that NCCL sees when RAILWISE_STRICT has refused the machine: NCCL only looks at its type.
template <typename Properties>
void fillRefused(Properties& to) {
  static char name[] = "refused";
  to = {};
  to.name = name;
  to.ptrSupport = NCCL_PTR_HOST;
  to.speed = 1;
  to.port = 1;
  to.maxComms = 1;
  to.maxRecvs = 1;
  if constexpr (requires { to.netDeviceType; }) {
    to.netDeviceType = NCCL_NET_DEVICE_HOST;
    to.netDeviceVersion = NCCL_NET_DEVICE_INVALID_VERSION;
  }
  if constexpr (requires { to.vProps; }) to.vProps.ndevs = 1;
}

}  // namespace railwise::plugin
