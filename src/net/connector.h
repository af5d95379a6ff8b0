// The connecting end of the handshake. Never blocks: NCCL polls connect(), which calls advance(). One thread
// at a time.
#pragma once

#include <memory>

#include "base/clock.h"
#include "net/sender/send_connection.h"
#include "net/wireup/handshake.h"

namespace railwise::net {

class Connector {
 public:
  // Checks the handle and makes this end's queue pairs. Errors, logged: kInvalidUsage (the handle is not
  // Railwise's, or is of another version), kSystem.
  static Result<std::unique_ptr<Connector>> create(const Device& device, const ConnectionOptions& options,
                                                   const ListenHandle& handle);

  // Is this the attempt to reach `handle` on `device`? A handle's "connecting" field comes from outside and
  // proves nothing.
  bool belongsTo(const Device& device, const ListenHandle& handle) const {
    return &device == &device_ && handle.nonce == handle_.nonce;
  }

  // NCCL has given the attempt up: the attempt's time is over, and NCCL has not called connect() for it for a
  // minute. (NCCL has no call for giving up.)
  bool abandoned() const;

  // Returns the connection, or null for "not yet". Errors, logged: kRemote, with both ends (the peer refuses,
  // fails, or does not answer within RAILWISE_CONNECT_TIMEOUT), or the error of SendConnection::describe().
  Result<std::unique_ptr<SendConnection>> advance();

 private:
  enum class Stage : uint8_t {
    kIdle,
    kConnecting,
    kSendingRequest,
    kAwaitingReply,
    kEstablishing,
    kSendingReady,
    kDone
  };

  Connector(const Device& device, const ConnectionOptions& options, const ListenHandle& handle)
      : device_(device),
        options_(options),
        handle_(handle),
        addresses_(handleAddresses(handle)),
        deadline_(Deadline::after(std::chrono::seconds(options.config.connect_timeout_s))) {}

  Result<Io> step();
  Status call();
  Result<Io> onReply();
  Result<Io> establish();
  // The address that this TCP call goes to: the handle's addresses in turn.
  const SocketAddress& address() const {
    return addresses_[static_cast<std::size_t>(calls_ - 1) % addresses_.size()];
  }
  Status callFailed(int error);
  Status failed(const std::string& what, int error);

  const Device& device_;
  const ConnectionOptions options_;
  const ListenHandle handle_;
  const std::vector<SocketAddress> addresses_;
  const Deadline deadline_;
  Clock::time_point last_asked_ = Clock::now();
  Stage stage_ = Stage::kIdle;
  int calls_ = 0;
  Clock::time_point next_call_ = {};
  Clock::time_point call_ends_ = {};  // when the next address is tried, if there is one
  Socket socket_;
  ConnectRequest request_ = {};
  ConnectReply reply_ = {};
  ConnectReady ready_ = {};
  Transfer transfer_ = {};
  std::unique_ptr<SendConnection> connection_;
};

}  // namespace railwise::net
