// The messages that the two ends of a `railwise bench` worker exchange, whether the ends are threads or
// processes. One thread at each end.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "base/outcome.h"
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

}  // namespace railwise::cli
