// The accepting end of the handshake: a TCP socket whose address is in the listen handle, and the handshakes
// of all callers. A caller that proves that it knows the handle's secret is the peer (authentication.h). All
// other callers are strangers (port scanners, health checks, other plugins, enemies): the listener drops all
// of them and logs the first one. When the peer's call is cut or changed on the way, the listener waits for
// the peer to call again. accept() never blocks: NCCL polls it. One thread at a time.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "net/receiver/receive_connection.h"
#include "net/wireup/authentication.h"
#include "net/wireup/census.h"
#include "net/wireup/handshake.h"

namespace railwise::net {

class Context;

class Listener {
 public:
  // Errors: kSystem, logged; kInvalidUsage if NCCL_SOCKET_IFNAME matches no interface.
  static Result<std::unique_ptr<Listener>> create(const Device& device, const ConnectionOptions& options);

  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const ListenHandle& handle() const { return handle_; }
  // The communicator that owns this listener.
  Context* owner() const { return owner_; }
  void setOwner(Context* owner) { owner_ = owner; }

  // Advances all handshakes. Returns the connection, or null for "not yet". Errors, logged with both ends:
  // kRemote (the peer gave up, or hung up and has not called again), or the error with which this end could
  // not make its queue pairs.
  Result<std::unique_ptr<ReceiveConnection>> accept();

 private:
  // A caller that has connected and has not yet sent its whole request. On the heap, because the transfer
  // points into it.
  struct Caller {
    Socket socket;
    SocketAddress address;
    Deadline deadline = Deadline::after({});
    bool proven = false;  // its hello is right: it is the peer, or somebody lets the peer's bytes through
    ConnectRequest request = {};
    Transfer transfer = {};
  };
  enum class Stage : uint8_t { kListening, kSendingReply, kEstablishing, kAwaitingReady };

  static constexpr std::size_t kMaxCallers = 32;

  Listener(const Device& device, const ConnectionOptions& options);

  Status openSocket();
  // Did this caller connect to an address that the handle names?
  bool atOurAddress(const Socket& socket) const;
  void admitCallers();
  void makeRoom();
  void hearCallers();
  enum class Hearing : uint8_t { kWait, kPeer, kDrop };
  Hearing hear(Caller& caller, std::string& reason);
  std::string checkHello(Caller& caller);
  // Hears a caller. False: it is no caller any more.
  bool keeps(std::unique_ptr<Caller>& caller);
  void takePeer(std::unique_ptr<Caller> caller);
  void noteStranger(const Caller& caller, const std::string& reason);
  Status answerPeer();
  Status buildConnection(const ConnectRequest& request, std::string& refusal);
  Status establish();
  Status awaitReady();
  // The last message was cut or changed on the way. A sender that has sent it proves itself to the Resumer.
  Status readyLost(const std::string& what);
  Status finish(Socket socket);
  // The connection is not made; the Resumer does not await its sender any more.
  void dropConnection();
  bool peerBeginsLost();
  bool readyIsThere();
  Status peerStillThere();
  // The peer's call was cut or changed on the way, or the peer has died: waits for another call.
  Status callEnded(const std::string& what);
  Status peerFailed(const std::string& what, int error);
  // The end of this listener, which the peer does not know of: takes no call any more, so that the peer,
  // which calls again, hears so at once.
  Status over(Status status);
  void warnOfPeer(const std::string& what);

  const Device& device_;
  const ConnectionOptions options_;
  Context* owner_ = nullptr;
  ListenHandle handle_ = {};
  Socket socket_;
  std::vector<SocketAddress> addresses_;  // addresses at which the peer may call
  std::vector<std::unique_ptr<Caller>> callers_;
  std::vector<Random> heard_;  // of all callers whose hello was right
  bool stranger_logged_ = false;
  bool accept_failure_logged_ = false;

  Stage stage_ = Stage::kListening;
  std::unique_ptr<Caller> peer_;
  ConnectReply reply_ = {};
  ConnectReady ready_ = {};
  std::optional<Clock::time_point> ready_at_;  // since when it is there, while RDMA CM still connects
  Session session_;
  Status over_;                    // the error with which it has ended
  std::optional<Deadline> again_;  // when the peer, whose call has ended, must have called again
  Transfer transfer_ = {};
  std::unique_ptr<ReceiveConnection> connection_;        // its handshake is under way
  bool awaited_ = false;                                 // the Resumer awaits the connection's sender, too
  std::unique_ptr<ReceiveConnection> connection_ready_;  // finished; accept() returns it next
  // What the record and the census say of this listener until the first connection is up. The census counts a
  // listener from the first accept(): before that the process does not wait for the peer.
  std::optional<record::ListenerPage> page_;
  std::optional<Census::Entry> census_;
};

}  // namespace railwise::net
