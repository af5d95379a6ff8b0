// RDMA devices as NCCL sees them. A physical device is one active port. A virtual device (makeVDevice) is up
// to eight physical devices that a connection uses together. A port that a device uses is called a rail, so a
// physical device has one rail.
//
// Threads: physical devices are made at init, virtual ones while NCCL reads the topology. A device is
// constant from then on (memory and windows have their own locks), so any thread may read it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/settings/config.h"
#include "net/device/event_watcher.h"
#include "net/device/memory.h"
#include "net/device/window_arena.h"
#include "net/device/worker.h"
#include "net/limits.h"
#include "record/writer.h"
#include "verbs/gid.h"
#include "verbs/port.h"
#include "verbs/queue_pair.h"

namespace railwise::net {

class Reopener;

enum PointerSupport : int { kHostPointers = 1, kDevicePointers = 2, kDmaBufPointers = 4 };  // NCCL_PTR_*

// What getProperties reports. plugin/properties.h copies it into the struct of an API version. The strings
// live as long as the process.
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
  int rail = -1;             // rail of the network; -1: not known
  int plane = -1;            // plane of the network; -1: not known
  bool force_flush = false;  // data and completions take different PCIe paths: flush for every GPU
};

// Identifies a device that has failed, so that it can be found and opened anew without its Hca.
struct HcaIdentity {
  std::string name;
  uint64_t node_guid;          // as verbs gives it, big-endian; 0: it has none
  std::vector<uint8_t> ports;  // those that are in use
  int generations = 1;         // how many of this device there were
};

// A verbs device: its context and protection domain, shared by its ports, and its state as events report it.
class Hca {
 public:
  // Errors: kSystem; `problem` says what failed.
  static Result<std::unique_ptr<Hca>> open(ibv_device* device, std::string& problem);
  // Sets all ports. Called before any other function.
  void setPorts(const std::vector<verbs::Port>& ports);

  HcaIdentity identity() const;
  // After a device has failed: opens it once more. It is known by its GUID, because it may come back under
  // another name. Errors: kNoDevice (no device has this GUID), kSystem; `problem` says what failed.
  static Result<std::unique_ptr<Hca>> openAnew(const HcaIdentity& identity, const Config& config,
                                               std::string& problem);
  // Sets the next generation of this device, for everyone who still holds this generation. This generation
  // stays in memory, but nothing works over it. Before that, the caller has renewed the first `renewed`
  // members of registered(). False: there are more members now, and nothing is set.
  bool setNextGeneration(std::unique_ptr<Hca>& nextGeneration, std::size_t renewed);
  // The next generation of this device. Null: the device was not opened anew. Any thread.
  Hca* nextGeneration() const { return next_generation_.load(std::memory_order_acquire); }
  // How many generations of this device there were before.
  int earlierGenerations() const { return earlier_generations_; }
  // What is registered with any generation.
  RegisteredMemory& registered() const { return *registered_; }

  const char* name() const { return name_.c_str(); }
  ibv_context* context() const { return context_.get(); }
  ibv_pd* pd() const { return pd_.get(); }
  const ibv_device_attr& attributes() const { return attributes_; }
  // What queue pairs on this device cannot have. Any thread.
  verbs::InlineLimits& inlineLimits() { return inline_limits_; }
  // The GID table of a port that is used; made if there is none yet.
  verbs::GidTable& gidTable(const verbs::Port& port, const Config& config);
  // The GID table of a port, which exists already.
  verbs::GidTable* gids(uint8_t port) const { return gid_tables_.at(port).get(); }
  // Valid after setPorts().
  DeviceState& state() const { return *state_; }

  // Does the driver answer? False while it has not answered a call of stops() for a second, which is logged
  // once. Nothing new may be made with the device then: NCCL's thread would wait.
  bool answers();
  // Where calls are made that a dying device may never answer (fence.h): moves of queue pairs to the error
  // state, and destructions, which wait for these moves.
  Worker& stops() { return stops_; }
  Worker& destructions() { return destructions_; }
  // A forked child has no such threads, and the device is its parent's.
  bool inForkedChild() const { return stops_.inForkedChild(); }
  // Says once for each kind that the driver refuses to end a queue pair, with this errno. Any thread.
  enum class Refusal : uint8_t { kStop, kDestruction };
  void noteRefusal(Refusal kind, int error);
  // A queue pair stays for ever, for it could not be destroyed. Any thread.
  void noteQueuePairStays() { queue_pair_stays_.store(true, std::memory_order_relaxed); }
  // Waits for these calls, of all later generations too. False: nothing of this device may be destroyed any
  // more, because its driver does not answer or has refused to destroy a queue pair, or because this is a
  // forked child. The owner of all connections calls it when there are none.
  bool finishCalls();

 private:
  Hca() = default;
  std::string name_;  // as it was called when it was opened
  verbs::Context context_;
  verbs::Pd pd_;
  ibv_device_attr attributes_ = {};
  verbs::InlineLimits inline_limits_;
  std::map<uint8_t, std::unique_ptr<verbs::GidTable>> gid_tables_;
  std::unique_ptr<DeviceState> state_;  // has pointers to the GID tables
  int earlier_generations_ = 0;
  std::shared_ptr<RegisteredMemory> registered_;  // one for all generations
  std::atomic<bool> said_silent_{false};
  std::array<std::atomic<bool>, 2> said_refusal_ = {};  // by kind
  std::atomic<bool> queue_pair_stays_{false};
  Worker stops_{"railwise-stop"};
  Worker destructions_{"railwise-remove"};
  std::unique_ptr<Hca> owned_next_generation_;
  std::atomic<Hca*> next_generation_{nullptr};
};

// One port that a device uses.
struct Rail {
  Hca* hca;
  verbs::Port port;
  verbs::GidTable* gids;
  const char* name;  // name of the physical device
  int rail = -1;     // rail of the network; -1: not known
  int plane = -1;
  bool data_direct = false;  // dma-bufs go through mlx5's data-direct function
  int pointer_support = kHostPointers;
  uint16_t record_rail = record::kNoRail;  // its place in the record (record/writer.h)

  // May new queue pairs be made on it: is the port up, and does the driver answer?
  bool usable() const { return hca->state().active(port.number) && hca->answers(); }
  // Is `other` the same port of the same generation of the device? The names do not matter.
  bool same(const Rail& other) const { return hca == other.hca && port.number == other.port.number; }
  // Is `later` the same port of this or a later generation, and do the keys of registered memory hold there?
  bool sharesKeysWith(const Rail& later) const;
  // The rail itself; or, if its device has failed and was opened anew, the same port of the next generation.
  Rail now() const;
  // Counts the events of the port, over all generations of the device. A changed number means: look again.
  uint32_t changes() const;
  // tell(): from now on `bell` rings at every event of the device, in any of its generations. forget() ends
  // that.
  void tell(verbs::FatalFlag* bell) const;
  void forget(verbs::FatalFlag* bell) const;
};

class Device {
 public:
  Device(const Config& config, DeviceProperties properties, std::vector<Rail> rails,
         std::vector<int> members);

  const DeviceProperties& properties() const { return properties_; }
  const std::vector<Rail>& rails() const { return rails_; }
  // Called by Net::paths(): sets the rail of the network that the (physical) device is on.
  void setRail(int rail) {
    properties_.rail = rails_.front().rail = rail;
    record::setNetworkRail(rails_.front().record_rail, rail);
  }
  // Indices of the physical devices it consists of; a physical device has its own index.
  const std::vector<int>& members() const { return members_; }
  const char* name() const { return properties_.name; }
  // In a forked child the device is its parent's, with all connections and listeners over it.
  bool inForkedChild() const { return rails_.front().hca->inForkedChild(); }
  // NCCL's number of this device; -1 until it has one.
  int index() const { return index_; }
  void setIndex(int index) { index_ = index; }
  // The number of the device's plane among the planes of all devices; 0: not known.
  int planeNumber() const { return plane_number_; }
  void setPlaneNumber(int number) { plane_number_ = number; }
  // The memory registered with all rails, and the windows of connections.
  MemoryCache& memory() const { return *memory_; }
  WindowArena& windows() const { return *windows_; }

 private:
  DeviceProperties properties_;
  std::vector<Rail> rails_;
  std::vector<int> members_;
  int index_ = -1;
  int plane_number_ = 0;
  std::shared_ptr<MemoryCache> memory_;
  std::shared_ptr<WindowArena> windows_;
};

struct DeviceList {
  DeviceList();
  DeviceList(DeviceList&&) noexcept;
  // Exchanges the contents. `other` destroys the old content, in the order of the destructor.
  DeviceList& operator=(DeviceList&& other) noexcept;
  // Stops the reopener first; then destroys the devices, the watcher, and the verbs devices that it watches.
  ~DeviceList();

  // Waits for calls that threads of the devices still make. False: nothing of a device may be destroyed.
  bool finishCalls() const;
  // Leaves everything in memory, because nothing of a device may be destroyed.
  void leave();

  std::vector<std::unique_ptr<Hca>> hcas;
  std::unique_ptr<Reopener> reopener;     // the watcher reports failures to it; null without failover
  std::unique_ptr<EventWatcher> watcher;  // reads the events of the hcas; null if it cannot be started
  // Physical devices, in net_ib's order: by PCI address, then port (NCCL_IB_DEVICE_PCI_ORDER=0: as verbs
  // lists them).
  std::vector<std::unique_ptr<Device>> devices;
};

// Finds all usable ports that NCCL_IB_HCA chooses. A device or port that cannot be used is logged with the
// reason. Errors: kNoDevice when none is left, logged in one line that says what to do.
Result<DeviceList> discoverDevices(const Config& config);

// Makes one device of several physical ones. Errors, logged: kInvalidArgument (none, too many, one twice,
// link layers that differ), kInvalidUsage (NCCL_IB_MERGE_NICS=0).
Result<std::unique_ptr<Device>> fuseDevices(const Config& config, const std::vector<const Device*>& members);

}  // namespace railwise::net
