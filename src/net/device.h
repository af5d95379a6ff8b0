// RDMA devices as NCCL sees them. A physical device is one active port; a virtual one (makeVDevice) is up to
// eight of them that a connection uses together. What a connection goes over is called a rail, so a physical
// device has one rail.
//
// Threads: physical devices are made at init, virtual ones while NCCL reads the topology; each is constant
// from then on (memory and windows have their own locks), so any thread may read it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "net/event_watcher.h"
#include "net/limits.h"
#include "net/memory.h"
#include "net/window_arena.h"
#include "verbs/gid.h"
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
  int rail = -1;             // -1: not known
  int plane = -1;            // likewise
  bool force_flush = false;  // data come another way than their completions: flush whatever the GPU
};

// A verbs device: its context and protection domain, shared by its ports, and what its events say of it.
class Hca {
 public:
  // Errors: kSystem, logged with the device's name.
  static Result<std::unique_ptr<Hca>> open(ibv_device* device);
  // All ports, before anything else is asked.
  void setPorts(const std::vector<verbs::Port>& ports);

  const char* name() const { return verbs::library().get_device_name(context_->device); }
  ibv_context* context() const { return context_.get(); }
  ibv_pd* pd() const { return pd_.get(); }
  const ibv_device_attr& attributes() const { return attributes_; }
  // The GIDs of a port that is used.
  verbs::GidTable& gidTable(const verbs::Port& port, const Config& config);
  // Valid after setPorts().
  DeviceState& state() const { return *state_; }

 private:
  Hca() = default;
  verbs::Context context_;
  verbs::Pd pd_;
  ibv_device_attr attributes_ = {};
  std::map<uint8_t, std::unique_ptr<verbs::GidTable>> gid_tables_;  // by port
  std::unique_ptr<DeviceState> state_;                              // knows the tables
};

// One port that a device uses.
struct Rail {
  Hca* hca;
  verbs::Port port;
  verbs::GidTable* gids;
  const char* name;  // of the physical device
  int rail = -1;     // of the network; -1: not known
  int plane = -1;
  bool data_direct = false;  // dma-bufs go through mlx5's data-direct function
  int pointer_support = kHostPointers;

  // The same port, whatever it is shown as.
  bool same(const Rail& other) const { return hca == other.hca && port.number == other.port.number; }
};

class Device {
 public:
  Device(const Config& config, DeviceProperties properties, std::vector<Rail> rails,
         std::vector<int> members);

  const DeviceProperties& properties() const { return properties_; }
  const std::vector<Rail>& rails() const { return rails_; }
  // At init: the rail of the network that the (physical) device is on.
  void setRail(int rail) { properties_.rail = rails_.front().rail = rail; }
  // Indices of the physical devices it consists of; of a physical one: its own.
  const std::vector<int>& members() const { return members_; }
  const char* name() const { return properties_.name; }
  // NCCL's number of it; -1 until it has one.
  int index() const { return index_; }
  void setIndex(int index) { index_ = index; }
  // Of the plane among those of all devices; 0: not known.
  int planeNumber() const { return plane_number_; }
  void setPlaneNumber(int number) { plane_number_ = number; }
  // Memory registered with all rails, and the windows of connections.
  MemoryCache& memory() const { return *memory_; }
  WindowArena& windows() const { return *windows_; }

 private:
  DeviceProperties properties_;
  std::vector<Rail> rails_;
  std::vector<int> members_;
  int index_ = -1;
  int plane_number_ = 0;
  std::unique_ptr<MemoryCache> memory_;
  std::unique_ptr<WindowArena> windows_;
};

struct DeviceList {
  DeviceList() = default;
  DeviceList(DeviceList&&) = default;
  // What was here goes in the order of the destructor: devices, then the watcher, then what it watches.
  DeviceList& operator=(DeviceList&& other) noexcept {
    std::swap(hcas, other.hcas);
    std::swap(watcher, other.watcher);
    std::swap(devices, other.devices);
    return *this;
  }

  std::vector<std::unique_ptr<Hca>> hcas;
  std::unique_ptr<EventWatcher> watcher;         // of the hcas; null when it cannot be had
  std::vector<std::unique_ptr<Device>> devices;  // physical, in net_ib's order: by PCI address, then port
};

// All usable ports that NCCL_IB_HCA chooses. A device or port that cannot be used is named with the reason.
// Errors: kNoDevice when none is left, logged in one line that tells what to do.
Result<DeviceList> discoverDevices(const Config& config);

// One device of several physical ones. Errors, logged: kInvalidArgument (none, too many, one twice, link
// layers that differ), kInvalidUsage (NCCL_IB_MERGE_NICS=0).
Result<std::unique_ptr<Device>> fuseDevices(const Config& config, const std::vector<const Device*>& members);

}  // namespace railwise::net
