// The connecting end of the handshake. Never blocks: NCCL polls connect(), which calls advance(). One thread
// at a time.
#pragma once

#include <memory>

#include "base/clock.h"
#include "net/sender/send_connection.h"
#include "net/wireup/authentication.h"
#include "net/wireup/census.h"
#include "net/wireup/handshake.h"

namespace railwise::net {

class Connector {
 public:
  // Checks the handle and makes this end's queue pairs. Errors, logged: kInvalidUsage (the handle is not
  // Railwise's, or is of another version), kSystem.
  static Result<std::unique_ptr<Connector>> create(const Device& device, const ConnectionOptions& options,
                                                   const ListenHandle& handle);

  // Tells a listener that waits for the end of the handshake that there will be none.
  ~Connector();

  // Is this the attempt to reach `handle` on `device`? A handle's "connecting" field comes from outside and
  // proves nothing.
  bool belongsTo(const Device& device, const ListenHandle& handle) const {
    return &device == &device_ && sameSecret(handle.secret, handle_.secret);
  }

  // NCCL has given the attempt up: the attempt's time is over, and NCCL has not called connect() for it for a
  // minute. (NCCL has no call for giving up.)
  bool abandoned() const;

  // Returns the connection, or null for "not yet". What is not proven to come from the peer ends a call, and
  // the peer is called again, up to ten times. Errors, logged: kRemote, with both ends (the peer refuses,
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
        deadline_(Deadline::after(std::chrono::seconds(options.config.connect_timeout_s))),
        census_(Census::ofProcess(), fieldText(handle.host), "nothing heard") {}

  Result<Io> step();
  Status makeConnection();
  Status call();
  Result<Io> onReply();
  Result<Io> establish();
  // The address that this TCP call goes to: the handle's addresses in turn.
  const SocketAddress& address() const {
    return addresses_[static_cast<std::size_t>(calls_ - 1) % addresses_.size()];
  }
  // What has been heard of the peer so far, for the census and the record.
  void note(const std::string& heard);
  Status callFailed(int error);
  // Bytes have come that the peer has not sent so.
  Status answerIsForged(const std::string& what);
  Status hangUp(const std::string& heard);
  // Like failed(), after it has told the listener why.
  Status giveUp(const std::string& what, int error);
  Status failed(const std::string& what, int error);
  void tellListener(std::string_view reason);

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
  Session session_;
  Transfer transfer_ = {};
  std::unique_ptr<SendConnection> connection_;
  Census::Entry census_;
  const Clock::time_point begun_ = Clock::now();
  Clock::time_point called_at_ = {};   // the TCP call was taken
  Clock::time_point replied_at_ = {};  // the reply was there
};

}  // namespace railwise::net
