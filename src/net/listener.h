// The accepting end of the handshake: a TCP socket whose address is in the listen handle, and the handshakes
// of all callers. A caller that knows the handle's nonce is the peer. All other callers are strangers (port
// scanners, health checks, other plugins): the listener drops all of them and logs the first one. accept()
// never blocks: NCCL polls it. One thread at a time.
#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "net/receiver/receive_connection.h"
#include "net/wireup/handshake.h"

namespace railwise::net {

class Context;

class Listener {
 public:
  // Errors: kSystem, logged; kInvalidUsage if NCCL_SOCKET_IFNAME matches no interface.
  static Result<std::unique_ptr<Listener>> create(const Device& device, const ConnectionOptions& options);

  ~Listener() { socket_.shutdown(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const ListenHandle& handle() const { return handle_; }
  // The communicator that owns this listener.
  Context* owner() const { return owner_; }
  void setOwner(Context* owner) { owner_ = owner; }

  // Advances all handshakes. Returns the connection, or null for "not yet". Errors, logged with both ends:
  // kRemote (the peer failed after it had proven to be the peer), or the error with which this end could not
  // make its queue pairs.
  Result<std::unique_ptr<ReceiveConnection>> accept();

 private:
  // A caller that has connected and has not yet sent its whole request. On the heap, because the transfer
  // points into it.
  struct Caller {
    Socket socket;
    SocketAddress address;
    Deadline deadline;
    ConnectRequest request = {};
    Transfer transfer = {};
  };
  enum class Stage : uint8_t { kListening, kSendingReply, kEstablishing, kAwaitingReady };

  static constexpr std::size_t kMaxCallers = 32;

  Listener(const Device& device, const ConnectionOptions& options) : device_(device), options_(options) {}

  Status openSocket();
  // Did this caller connect to an address that the handle names?
  bool atOurAddress(const Socket& socket) const;
  void admitCallers();
  void hearCallers();
  enum class Hearing : uint8_t { kWait, kPeer, kDrop };
  Hearing hear(Caller& caller, std::string& reason);
  void noteStranger(const Caller& caller, const std::string& reason);
  Status answerPeer();
  Status buildConnection(const ConnectRequest& request, std::string& refusal);
  Status establish();
  Status awaitReady();
  Status peerStillThere();
  Status peerFailed(const std::string& what, int error);

  const Device& device_;
  const ConnectionOptions options_;
  Context* owner_ = nullptr;
  ListenHandle handle_ = {};
  Socket socket_;
  std::vector<SocketAddress> addresses_;  // addresses at which the peer may call
  std::vector<std::unique_ptr<Caller>> callers_;
  bool stranger_logged_ = false;
  bool accept_failure_logged_ = false;

  Stage stage_ = Stage::kListening;
  std::unique_ptr<Caller> peer_;
  ConnectReply reply_ = {};
  ConnectReady ready_ = {};
  Transfer transfer_ = {};
  std::unique_ptr<ReceiveConnection> connection_;        // its handshake is under way
  std::unique_ptr<ReceiveConnection> connection_ready_;  // finished; accept() returns it next
};

}  // namespace railwise::net
