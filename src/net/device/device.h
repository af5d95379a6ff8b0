// RDMA devices as NCCL sees them. A physical device is one active port; a virtual one (makeVDevice) is up to
// eight of them that a connection uses together. What a connection goes over is called a rail, so a physical
// device has one rail.
//
// Threads: physical devices are made at init, virtual ones while NCCL reads the topology; each is constant
// from then on (memory and windows have their own locks), so any thread may read it.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/config.h"
#include "net/device/event_watcher.h"
#include "net/device/memory.h"
#include "net/device/window_arena.h"
#include "net/limits.h"
#include "verbs/gid.h"
#include "verbs/port.h"

namespace railwise::net {

class Reopener;

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
  // Errors: kSystem; `problem` says what failed.
  static Result<std::unique_ptr<Hca>> open(ibv_device* device, std::string& problem);
  // All ports, before anything else is asked.
  void setPorts(const std::vector<verbs::Port>& ports);

  // After it has failed: the same device with the same ports in use, opened once more. Errors: kNoDevice (not
  // there, or another has its name), kSystem; `problem` says what failed.
  Result<std::unique_ptr<Hca>> openAnew(const Config& config, std::string& problem) const;
  // What came of that, for all who still know this one: it is of no more use, but lives as long.
  void setSuccessor(std::unique_ptr<Hca> successor);
  // Null: it was not opened anew. Any thread.
  Hca* successor() const { return successor_.load(std::memory_order_acquire); }
  // How often it was opened before.
  int earlierLives() const { return earlier_lives_; }

  const char* name() const { return verbs::library().get_device_name(context_->device); }
  ibv_context* context() const { return context_.get(); }
  ibv_pd* pd() const { return pd_.get(); }
  const ibv_device_attr& attributes() const { return attributes_; }
  // The GIDs of a port that is used.
  verbs::GidTable& gidTable(const verbs::Port& port, const Config& config);
  // The same, which is there already.
  verbs::GidTable* gids(uint8_t port) const { return gid_tables_.at(port).get(); }
  // Valid after setPorts().
  DeviceState& state() const { return *state_; }

 private:
  Hca() = default;
  verbs::Context context_;
  verbs::Pd pd_;
  ibv_device_attr attributes_ = {};
  std::map<uint8_t, std::unique_ptr<verbs::GidTable>> gid_tables_;  // by port
  std::unique_ptr<DeviceState> state_;                              // knows the tables
  int earlier_lives_ = 0;
  std::unique_ptr<Hca> owned_successor_;
  std::atomic<Hca*> successor_{nullptr};
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

  // The same port, whatever it is shown as; of a device that was opened anew it is another.
  bool same(const Rail& other) const { return hca == other.hca && port.number == other.port.number; }
  // The rail itself, or where its device has failed and was opened anew, the same port of that.
  Rail now() const;
  // Counts the events of the port, in all lives of the device: who remembers it knows when to look again.
  uint32_t changes() const;
  // `bell` rings when something happens to the device, in any of its lives, or no more.
  void tell(verbs::FatalFlag* bell) const;
  void forget(verbs::FatalFlag* bell) const;
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
  DeviceList();
  DeviceList(DeviceList&&) noexcept;
  // What was here goes in the order of the destructor.
  DeviceList& operator=(DeviceList&& other) noexcept;
  // Nothing is opened any more; then the devices go, the watcher, and what it watches.
  ~DeviceList();

  std::vector<std::unique_ptr<Hca>> hcas;
  std::unique_ptr<Reopener> reopener;            // told by the watcher; null without failover
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
