// The connecting end of the handshake. Never blocks: advance() is polled. One thread at a time.
#pragma once

#include <memory>

#include "base/clock.h"
#include "net/connection.h"
#include "net/handshake.h"

namespace railwise::net {

class Connector {
 public:
  // Checks the handle. Errors, logged: kInvalidUsage when it is not Railwise's or not of our version.
  static Result<std::unique_ptr<Connector>> create(const Device& device, const ConnectionOptions& options,
                                                   const ListenHandle& handle);

  // Is this the attempt to reach `handle` on `device`? A handle's "connecting" field comes from outside.
  bool belongsTo(const Device& device, const ListenHandle& handle) const {
    return &device == &device_ && handle.nonce == handle_.nonce;
  }

  bool expired() const { return deadline_.passed(); }

  // The connection, or null for "not yet". Errors, logged with both ends: kRemote when the peer refuses,
  // fails or does not answer in RAILWISE_CONNECT_TIMEOUT.
  Result<std::unique_ptr<SendConnection>> advance();

 private:
  enum class Stage : uint8_t { kIdle, kConnecting, kSendingRequest, kAwaitingReply, kSendingReady, kDone };

  Connector(const Device& device, const ConnectionOptions& options, const ListenHandle& handle,
            SocketAddress address)
      : device_(device),
        config_(options.config),
        host_(options.local_host),
        traffic_class_(options.traffic_class),
        handle_(handle),
        address_(address),
        deadline_(Deadline::after(std::chrono::seconds(options.config.connect_timeout_s))) {}

  Result<Io> step();
  Status call();
  Result<Io> onReply();
  Status callFailed(int error);
  Status failed(const std::string& what, int error);
  ConnectionOptions options() const { return {config_, host_, traffic_class_}; }

  const Device& device_;
  const Config& config_;
  const std::string host_;
  const int traffic_class_;
  const ListenHandle handle_;
  const SocketAddress address_;
  const Deadline deadline_;
  Stage stage_ = Stage::kIdle;
  int calls_ = 0;
  Clock::time_point next_call_ = {};
  Socket socket_;
  ConnectRequest request_ = {};
  ConnectReply reply_ = {};
  ConnectReady ready_ = {};
  Transfer transfer_ = {};
  std::unique_ptr<SendConnection> connection_;
};

}  // namespace railwise::net
