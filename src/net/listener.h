// The accepting end of the handshake of a connection for messages. NCCL calls accept() for one peer: the
// caller that proves that it knows the handle's secret (reception.h). When the peer's call is cut or changed
// on the way, the listener waits for the peer to call again. accept() never blocks: NCCL polls it. One thread
// at a time.
#pragma once

#include <memory>
#include <optional>

#include "base/clock.h"
#include "net/answering.h"
#include "net/receiver/receive_connection.h"
#include "net/reception.h"
#include "net/wireup/census.h"

namespace railwise::net {

class Context;

class Listener {
 public:
  // Errors: as of Reception::create().
  static Result<std::unique_ptr<Listener>> create(const Device& device, const ConnectionOptions& options);

  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const ListenHandle& handle() const { return reception_->handle(); }
  // The communicator that owns this listener.
  Context* owner() const { return owner_; }
  void setOwner(Context* owner) { owner_ = owner; }

  // Advances all handshakes. Returns the connection, or null for "not yet". Errors, logged with both ends:
  // kRemote (the peer gave up, or hung up and has not called again), or the error with which this end could
  // not make its queue pairs.
  Result<std::unique_ptr<ReceiveConnection>> accept();

 private:
  Listener(const Device& device, const ConnectionOptions& options, std::unique_ptr<Reception> reception);

  void takePeer(std::unique_ptr<Caller> caller);
  std::unique_ptr<ReceiveConnection> takeConnection();
  Status notAgain();
  // The end of this listener, which the peer does not know of: takes no call any more, so that the peer,
  // which calls again, hears so at once.
  Status over(Status status);

  const Device& device_;
  const ConnectionOptions options_;
  const Answering<ReceiveConnection>::Make make_;
  Context* owner_ = nullptr;
  const std::unique_ptr<Reception> reception_;
  std::unique_ptr<Answering<ReceiveConnection>> peer_;  // its handshake is under way
  Status over_;                                         // the error with which it has ended
  std::optional<Deadline> again_;  // when the peer, whose call has ended, must have called again
  // What the record and the census say of this listener until the first connection is up. The census counts a
  // listener from the first accept(): before that the process does not wait for the peer.
  std::optional<record::ListenerPage> page_;
  std::optional<Census::Entry> census_;
};

}  // namespace railwise::net
