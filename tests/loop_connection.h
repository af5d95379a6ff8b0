// A connection from this process to itself on software devices, for tests of src/net: its two ends, and
// buffers that are registered with its device.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "net/net.h"
#include "softdev/softdev.h"
#include "tests/setting.h"
#include "tests/wait.h"

namespace railwise::net {

// The Net of this process, on software devices of its own with these keys. Net::release() ends it.
inline Net* acquireNet(const std::string& devices) {
  test::useSoftwareDevices("fabric=test" + std::to_string(getpid()) + (devices.empty() ? "" : ",") + devices);
  const Result<Net*> net = Net::acquire();
  if (!net.ok()) throw std::runtime_error("no devices: " + devices);
  return *net;
}

class LoopConnection {
 public:
  // `devices`: keys of the software device's configuration. `rails`: the connection is on a virtual device of
  // the first so many physical ones; 1: on the first itself. `bytes`: of the buffer.
  explicit LoopConnection(std::size_t bytes, const std::string& devices = "", int rails = 1)
      : buffer_(bytes), net_(acquireNet(devices)) {
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

  // Until both have completed; false: one failed.
  static bool finishBoth(Request* one, Request* other) {
    bool done[2] = {};
    for (test::Patience patience; !done[0] || !done[1]; patience.again()) {
      if (!done[0] && !one->connection->test(*one, &done[0], nullptr).ok()) return false;
      if (!done[1] && !other->connection->test(*other, &done[1], nullptr).ok()) return false;
    }
    return true;
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
  // Sends as soon as the receiver is ready.
  Request* sendWhenReady(std::size_t from, std::size_t bytes) {
    Request* request = nullptr;
    for (test::Patience patience; request == nullptr; patience.again()) request = send(from, bytes);
    return request;
  }

  // Over all devices.
  softdev::Counters counters() const {
    Words sum = {};
    for (const Rail& rail : device_->rails()) {
      const auto one = std::bit_cast<Words>(softdev::counters(rail.hca->context()));
      std::ranges::transform(sum, one, sum.begin(), std::plus());
    }
    return std::bit_cast<softdev::Counters>(sum);
  }
  // What they count while `act` runs.
  template <typename Act>
  softdev::Counters countersOf(Act&& act) const {
    const auto before = std::bit_cast<Words>(counters());
    act();
    auto after = std::bit_cast<Words>(counters());
    std::ranges::transform(after, before, after.begin(), std::minus());
    return std::bit_cast<softdev::Counters>(after);
  }
  softdev::Counters counters(std::size_t rail) const {
    return softdev::counters(device_->rails()[rail].hca->context());
  }

 private:
  using Words = std::array<uint64_t, sizeof(softdev::Counters) / sizeof(uint64_t)>;

  bool only_plugin_ = true;
  std::vector<char> buffer_;
  Net* const net_;
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
