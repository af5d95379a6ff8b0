// A connection from this process to itself on software devices, for tests of src/net: its two ends, and
// buffers that are registered with its device.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "net/net.h"
#include "softdev/softdev.h"
#include "tests/wait.h"

namespace railwise::net {

class LoopConnection {
 public:
  // `devices`: keys of the software device's configuration. `rails`: the connection is on a virtual device of
  // the first so many physical ones; 1: on the first itself. `bytes`: of the buffer.
  explicit LoopConnection(std::size_t bytes, const std::string& devices = "", int rails = 1)
      : buffer_(bytes) {
    const std::string text =
        "software:fabric=test" + std::to_string(getpid()) + (devices.empty() ? "" : "," + devices);
    setenv("RAILWISE_DEVICE", text.c_str(), 1);
    setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    setenv("RAILWISE_FUSE_PLACELESS", "1", 1);  // these devices are in no PCI tree
    net_ = *Net::acquire();
    context_ = std::make_unique<Context>(*net_, -1);
    std::vector<int> members(static_cast<std::size_t>(rails));
    std::iota(members.begin(), members.end(), 0);
    device_ = net_->device(*net_->makeVirtualDevice(members));
    connect();
    memory_ = *device_->memory().acquire(address(0), buffer_.size(), MemoryKind::kHost);
  }
  ~LoopConnection() {
    if (at_end != nullptr && only_plugin_) at_end(*net_);
    device_->memory().release(memory_);
    context_.reset();
    Net::release();
  }
  LoopConnection(const LoopConnection&) = delete;
  LoopConnection& operator=(const LoopConnection&) = delete;

  // Called when a LoopConnection ends, while it still stands.
  static inline void (*at_end)(Net&) = nullptr;
  // Called with each handle on its way from the listener to the connector.
  static inline std::function<void(char* handle)> on_the_way;
  // This test posts to the devices by itself, so that their counts are not the plugin's alone.
  void usesDevicesItself() { only_plugin_ = false; }

  Net& net() { return *net_; }
  Context& context() { return *context_; }
  const Device& device() const { return *device_; }
  SendConnection& sender() { return *send_; }
  ReceiveConnection& receiver() { return *receive_; }
  MemoryHandle* memory() const { return memory_; }
  char* at(std::size_t offset) { return buffer_.data() + offset; }
  uint64_t address(std::size_t offset) const { return reinterpret_cast<uint64_t>(buffer_.data()) + offset; }

  // Another connection of the same device; the first stays the one that everything else here is about.
  SendConnection* connect() {
    char handle[kHandleBytes];
    Listener* listener = *context_->listen(*device_, handle);
    if (on_the_way) on_the_way(handle);
    SendConnection* send = nullptr;
    ReceiveConnection* receive = nullptr;
    for (test::Patience patience; send == nullptr || receive == nullptr; patience.again()) {
      if (send == nullptr) send = *context_->connect(*device_, handle, -1);
      if (receive == nullptr) receive = *Context::accept(*listener);
    }
    Context::close(listener);
    if (send_ == nullptr) {
      send_ = send;
      receive_ = receive;
    }
    return send;
  }

  // From now on everything here is about a new connection of the same device; the first stays open.
  void useAnother() {
    send_ = nullptr;
    connect();
  }
  // The buffer's registration is a new one.
  void registerAnew() {
    device_->memory().release(memory_);
    memory_ = *device_->memory().acquire(address(0), buffer_.size(), MemoryKind::kHost);
  }

  // Polls until the request has completed; false: it failed.
  static bool finish(Request* request) {
    for (test::Patience patience;; patience.again()) {
      bool done = false;
      if (!request->connection->test(*request, &done, nullptr).ok()) return false;
      if (done) return true;
    }
  }

  // Posts a receive of `n` buffers of `bytes` each, all at `to`; null: it failed.
  Request* receive(int n, std::size_t to, std::size_t bytes) {
    const std::vector<ReceiveBuffer> buffers(static_cast<std::size_t>(n), {address(to), bytes, 0, memory_});
    Request* request = nullptr;
    return receive_->irecv(buffers, false, &request).ok() ? request : nullptr;
  }
  // Sends to the next receive; null: it failed, or the receiver is not ready.
  Request* send(std::size_t from, std::size_t bytes) {
    Request* request = nullptr;
    return send_->isend(address(from), bytes, 0, memory_, nullptr, &request).ok() ? request : nullptr;
  }

  // Over all devices.
  softdev::Counters counters() const {
    softdev::Counters sum = {};
    auto* const total = reinterpret_cast<uint64_t*>(&sum);
    for (const Rail& rail : device_->rails()) {
      const softdev::Counters one = softdev::counters(rail.hca->context());
      const auto* const values = reinterpret_cast<const uint64_t*>(&one);
      for (std::size_t i = 0; i < sizeof sum / sizeof(uint64_t); ++i) total[i] += values[i];
    }
    return sum;
  }
  softdev::Counters counters(std::size_t rail) const {
    return softdev::counters(device_->rails()[rail].hca->context());
  }

 private:
  bool only_plugin_ = true;
  std::vector<char> buffer_;
  Net* net_ = nullptr;
  std::unique_ptr<Context> context_;
  const Device* device_ = nullptr;
  SendConnection* send_ = nullptr;
  ReceiveConnection* receive_ = nullptr;
  MemoryHandle* memory_ = nullptr;
};

// Where queue pair `index` of a connection lies, in every epoch.
inline LaneQueuePair& queuePairOf(Connection& connection, std::size_t index) {
  auto* const memory = reinterpret_cast<std::byte*>(&connection) - QueuePairs::kBytes;
  return reinterpret_cast<LaneQueuePair*>(memory)[index];
}

}  // namespace railwise::net
