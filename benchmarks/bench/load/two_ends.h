// A load whose two ends each have a thread or a process of their own. Each end of a plugin has its own
// context of the plugin, as each rank of NCCL has.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/outcome.h"
#include "benchmarks/bench/load/load.h"
#include "nccl/types.h"

namespace railwise::cli {

struct BenchFrame {
  uint64_t number = 0;
  alignas(8) std::byte handle[NCCL_NET_HANDLE_MAXSIZE] = {};
  char error[256] = "";  // empty: none
};

class BenchChannel {
 public:
  // Returns both ends. If the socket pair cannot be made, each end reports that the other end has gone.
  static std::pair<BenchChannel, BenchChannel> create() {
    int sockets[2] = {-1, -1};
    (void)socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets);
    return {BenchChannel(sockets[0]), BenchChannel(sockets[1])};
  }

  BenchChannel(BenchChannel&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  BenchChannel& operator=(BenchChannel&&) = delete;
  ~BenchChannel() { close(); }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }

  bool put(const BenchFrame& frame) const {
    return send(socket_, &frame, sizeof frame, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof frame);
  }
  bool putNumber(uint64_t number) const {
    BenchFrame frame;
    frame.number = number;
    return put(frame);
  }
  bool putError(const std::string& error) const {
    BenchFrame frame;
    std::snprintf(frame.error, sizeof frame.error, "%s", error.c_str());
    return put(frame);
  }
  // Blocks until a frame arrives. An error: the other end has gone or failed.
  Outcome<BenchFrame> get() const {
    BenchFrame frame;
    if (recv(socket_, &frame, sizeof frame, 0) != static_cast<ssize_t>(sizeof frame))
      return Error{"the other end has gone"};
    if (frame.error[0] != '\0') return Error{std::string("the other end: ") + frame.error};
    return frame;
  }

 private:
  explicit BenchChannel(int socket) : socket_(socket) {}
  int socket_;
};

// One end of the load. Functions that return false leave the reason in error().
class BenchOneEnd {
 public:
  enum class Side : uint8_t { kNear, kFar };  // the near end sends, and begins a ping-pong

  virtual ~BenchOneEnd() = default;
  BenchOneEnd(const BenchOneEnd&) = delete;
  BenchOneEnd& operator=(const BenchOneEnd&) = delete;

  virtual bool load() = 0;
  // Connects to the other end, which calls join() at the same time.
  virtual bool join(Side side) = 0;
  virtual void verify(bool on) = 0;
  // `round_trips_ns`: only at the near end of a ping-pong; otherwise null.
  virtual bool run(uint64_t messages, std::vector<uint64_t>* round_trips_ns) = 0;
  virtual bool close() = 0;

  const BenchOrigin& origin() const { return origin_; }
  const std::string& error() const { return error_; }

 protected:
  BenchOneEnd() = default;
  bool fail(const std::string& why) {
    if (error_.empty()) error_ = why;
    return false;
  }

  BenchOrigin origin_;
  std::string error_;
};

using MakeBenchEnd = std::unique_ptr<BenchOneEnd> (*)(const BenchTask& task, const BenchChannel& channel);
std::unique_ptr<BenchOneEnd> makePluginEnd(const BenchTask& task, const BenchChannel& channel);
// An end for bare RDMA writes: the near end writes, and the far end does nothing. In a ping-pong each end
// waits until the last byte of a write is in its memory.
std::unique_ptr<BenchOneEnd> makeRawEnd(const BenchTask& task, const BenchChannel& channel);

// Starts the second process here, if the task has two processes. Call it before any plugin is loaded and any
// thread is started.
std::unique_ptr<BenchLoad> makeTwoEnds(const BenchTask& task, MakeBenchEnd make);

}  // namespace railwise::cli
