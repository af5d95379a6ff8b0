// The network as a whole: the devices of this process, and a Context for each communicator that uses them.
//
// Net lives from the first init to the last finalize. A Context owns every listener, unfinished and finished
// connection of its communicator, so that finalize frees what NCCL forgets: NCCL frees connections that never
// came up without closing them. Threads: acquire and release from any thread. A Context's functions from any
// thread, but each listener and each connection from one thread at a time.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "net/connector.h"
#include "net/device/device.h"
#include "net/device/reopener.h"
#include "net/listener.h"
#include "net/sender/send_connection.h"
#include "net/topology/path_bandwidth.h"
#include "net/wireup/resumer.h"

namespace railwise::net {

class Net {
 public:
  // Returns the process's Net. If there is none, makes it: reads the configuration, loads verbs, finds the
  // devices. Errors, logged: kNoDevice, kInvalidUsage, kSystem, kRefused (by RAILWISE_STRICT). Every success
  // needs one release().
  static Result<Net*> acquire();
  static void release();
  // The process's Net, or null before the first init. It stays valid while a context lives.
  static Net* current();

  // Stops the reopener first: its thread may hold the memory caches of devices.
  ~Net();
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;

  const Config& config() const { return config_; }
  const std::string& host() const { return host_; }
  const std::string& gpuDriver() const { return gpu_driver_; }
  // Device `index`, physical devices first; null: there is none.
  const Device* device(int index) const;
  // The same, with an error logged where there is none.
  const Device* findDevice(int index);
  // The number of devices that NCCL shall see. Virtual devices of an earlier Net keep their indices, but
  // count only after NCCL has made them again: after NCCL has unloaded and loaded the plugin, NCCL calls this
  // function first and takes the answer for the number of physical devices. If NCCL has kept the plugin
  // loaded, NCCL uses the virtual devices without calling this function.
  int deviceCount();
  // Call it when NCCL calls init again while this Net is still in use, as versions 6 to 10 do: they have no
  // finalize.
  void reloaded();

  // The paths between GPUs and devices. The first call reads /sys for them, hundreds of files, and sets the
  // rails of the devices (DeviceProperties::rail): init does without. Any thread.
  const PathBandwidth& paths() const;

  // What each rail of the device can carry for the GPU that is in use on this thread, Mb/s.
  std::array<int, kMaxRails> railBandwidths(const Device& device) const;

  // What a connection over this device needs to know. `queue_pairs`: of each lane.
  ConnectionOptions connectionOptions(const Device& device, int traffic_class, int queue_pairs) const;
  // The standbys of this device: rails of other devices that its connections may use, best first.
  std::vector<Rail> standbysOf(const Device& device) const;
  int physicalDevices() const { return static_cast<int>(list_.devices.size()); }
  // The watcher that reads the side channels. The events of the devices have another watcher, because that
  // one may block on a device that is failing. Null: the watcher could not be started.
  EventWatcher* watcher() const { return peers_.get(); }
  // Resumes the side channels. Null: nobody does.
  Resumer* resumer() const { return resumer_.get(); }

  // Makes one virtual device of these physical devices and returns its index. Equal members give the same
  // index as before; a single physical device gives its own index. Errors, logged: kInvalidArgument (an index
  // that is not a physical device's, one index twice, too many), kInvalidUsage (NCCL_IB_MERGE_NICS=0).
  Result<int> makeVirtualDevice(std::span<const int> members);

 private:
  Net() = default;
  Status start();
  void startRecord() const;
  Status findDevices();
  void restoreVirtualDevices();
  Status addVirtualDevice(std::span<const int> members);

  Config config_;
  std::string host_;
  std::string gpu_driver_;
  DeviceList list_;
  std::unique_ptr<EventWatcher> peers_;
  std::unique_ptr<Resumer> resumer_;
  std::string topology_;  // what provideTopology() has returned
  mutable std::once_flag paths_found_;
  mutable PathBandwidth paths_;
  std::mutex mutex_;    // held while virtual devices are made
  bool fused_ = false;  // NCCL has made virtual devices since start()
  std::array<std::unique_ptr<Device>, kMaxDevices> virtual_;
  std::atomic<int> virtual_count_ = 0;
  std::vector<std::unique_ptr<Device>> retired_;  // replaced devices, which connections may still use
};

class Context {
 public:
  // `communicator`: NCCL's hash of it, for the record; 0: not known.
  Context(Net& net, int traffic_class, uint64_t communicator = 0)
      : net_(net), traffic_class_(traffic_class), communicator_(communicator) {}

  // What NCCL expects of the communicator: how many peers at once, and how many connections with each peer.
  // Negative: not known. The function is inline, because NCCL calls it before each operation of its proxy.
  // The stores are relaxed, because a hint that comes a little late does no harm.
  void setHints(int peers, int connections_per_peer) noexcept {
    peers_.store(peers, std::memory_order_relaxed);
    connections_per_peer_.store(connections_per_peer, std::memory_order_relaxed);
  }

  // Device `index`, or null with an error logged.
  const Device* device(int index) const { return net_.findDevice(index); }

  // Makes a listener. `handle` receives kHandleBytes bytes.
  Result<Listener*> listen(const Device& device, void* handle);
  // Advances the connection attempt that `handle` (the caller's own copy) belongs to, or begins an attempt.
  // Null: the connection is not up yet. `traffic_class` negative: the context's traffic class is used.
  Result<SendConnection*> connect(const Device& device, void* handle, int traffic_class);

  // These functions find the context of their argument. accept: null means not yet.
  static Result<ReceiveConnection*> accept(Listener& listener);
  static void close(Listener* listener);
  static void close(Connection* connection);

 private:
  struct Attempt {
    uint32_t id;
    std::unique_ptr<Connector<SendConnection>> connector;
  };
  // Takes the attempt that `handle` belongs to out of attempts_, for the time in which connect() advances it.
  // Null: there is no such attempt.
  std::unique_ptr<Connector<SendConnection>> takeAttempt(const Device& device, const ListenHandle& handle);

  ConnectionOptions options(const Device& device, int traffic_class) const;

  Net& net_;
  const int traffic_class_;
  const uint64_t communicator_;
  std::atomic<int> peers_ = -1;
  std::atomic<int> connections_per_peer_ = -1;
  std::mutex mutex_;  // guards the lists, not the objects in them
  uint32_t last_attempt_ = 0;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<Attempt> attempts_;
  Clock::time_point looked_for_abandoned_ = {};
  std::vector<std::unique_ptr<SendConnection>> sends_;
  std::vector<std::unique_ptr<ReceiveConnection>> receives_;
};

}  // namespace railwise::net
