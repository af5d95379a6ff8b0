// RDMA devices as NCCL sees them: one net::Device for each active port, over one net::Hca for each verbs
// device. Made once at init and constant afterwards (the memory cache has its own lock), so any thread may
// read them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/config.h"
#include "net/limits.h"
#include "net/memory.h"
#include "verbs/port.h"

namespace railwise::net {

enum PointerSupport : int { kHostPointers = 1, kDevicePointers = 2, kDmaBufPointers = 4 };  // NCCL_PTR_*

// What getProperties reports, before it is cut to one API version. The strings live as long as the process.
struct DeviceProperties {
  const char* name;
  const char* pci_path;  // null when the device has no place in the PCI tree
  uint64_t guid;
  int pointer_support;
  int speed_mbps;
  int port;
  float latency_us;
  int max_connections;
  std::size_t max_message_bytes;
  int rail = -1;  // -1: not known
};

// A verbs device: its context, protection domain and registered memory, shared by its ports.
class Hca {
 public:
  // Errors: kSystem, logged with the device's name.
  static Result<std::unique_ptr<Hca>> open(ibv_device* device, const Config& config);

  const char* name() const { return verbs::library().get_device_name(context_->device); }
  ibv_context* context() const { return context_.get(); }
  ibv_pd* pd() const { return pd_.get(); }
  const ibv_device_attr& attributes() const { return attributes_; }
  MemoryCache& memory() { return *memory_; }

 private:
  Hca() = default;
  verbs::Context context_;
  verbs::Pd pd_;
  ibv_device_attr attributes_ = {};
  std::unique_ptr<MemoryCache> memory_;
};

struct Device {
  Hca* hca;
  verbs::Port port;
  DeviceProperties properties;
};

struct DeviceList {
  std::vector<std::unique_ptr<Hca>> hcas;
  std::vector<Device> devices;  // in net_ib's order: by PCI address, then port
};

// All usable ports that NCCL_IB_HCA chooses. A device or port that cannot be used is named with the reason.
// Errors: kNoDevice when none is left, logged in one line that tells what to do.
Result<DeviceList> discoverDevices(const Config& config);

}  // namespace railwise::net
