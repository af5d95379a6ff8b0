// Connections that the RDMA communication manager (librdmacm, or that of the software device) brings up. On
// iWARP there is no other way; elsewhere it is an alternative. Nothing here sleeps or has a thread: advance()
// checks whether something has happened, and the caller decides how long it goes on calling. But the kernel's
// manager of iWARP makes the destruction of a connection that is not up yet wait for its driver.
//
//   acceptor: CmListener listener = CmListener::create(context, port, address);
//             (the port number of listener.address() travels to the peer)
//             listener.poll() -> CmRequest (private data) -> CmConnection::accept(request, queue pair, ...)
//   caller:   CmConnection::connect(queue pair, address, peer, ...)
//   both:     advance() until it returns true
//
// The queue pair comes from createQueuePair(), in INIT. Post receives before connect() or accept(), because
// on iWARP a send that finds no receive ends the connection. From then on the queue pair belongs to the
// connection and is destroyed with it. Before advance() has returned true nothing may be posted to its send
// queue.
// Each object has its own event channel (one descriptor). One thread at a time may use an object. The context
// and all objects that the queue pair was made from must outlive it. Errors are logged once, with device,
// addresses and what to do. The codes are kNoDevice (no librdmacm), kSystem (a call failed) and kRemote
// (refused, gone, or nobody listens).
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/settings/config.h"
#include "base/socket.h"
#include "verbs/cm/library.h"
#include "verbs/port.h"
#include "verbs/queue_pair.h"

namespace railwise::verbs {

// Limits of the private data in a request and in a reply (InfiniBand's limits minus the CM's own header).
constexpr size_t kCmRequestBytes = 56;
constexpr size_t kCmReplyBytes = 196;

// Bytes with a length. Received data may be longer than what was sent, because InfiniBand pads it with zeros.
struct CmPrivateData {
  std::array<std::byte, kCmReplyBytes> bytes = {};
  size_t size = 0;
  std::span<const std::byte> span() const { return {bytes.data(), size}; }
};

// The addresses by which the communication manager finds this port, best first, each with port number 0.
// Empty if the port has none (InfiniBand without IP over IB). For a real device this asks the kernel about
// every address of the machine, and caches the answer for ten seconds. Errors: kNoDevice if librdmacm is
// missing.
Result<std::vector<SocketAddress>> cmAddresses(ibv_context* context, const Port& port);

// Converts the address to 16 bytes (IPv4 mapped, as in a GID) for a handshake, and back. `scope_id` is valid
// only on one machine: for a link-local peer, pass that of our own address.
ibv_gid cmAddressBytes(const SocketAddress& address);
SocketAddress cmAddressOf(const ibv_gid& bytes, uint16_t port, uint32_t scope_id);

// Wanted properties of the path.
struct CmPath {
  uint8_t traffic_class = 0;
  bool quiet = false;  // errors are information: another path will be tried
};

struct CmRelease {
  void operator()(rdma_event_channel* channel) const;
  void operator()(rdma_cm_id* id) const;
  // Acknowledges it. Destroying its id waits for that.
  void operator()(rdma_cm_event* event) const;
};
using CmEvent = std::unique_ptr<rdma_cm_event, CmRelease>;
using CmChannel = std::unique_ptr<rdma_event_channel, CmRelease>;
using CmId = std::unique_ptr<rdma_cm_id, CmRelease>;

// A peer's request for a connection. If it is destroyed unanswered, the peer is refused.
class CmRequest {
 public:
  const CmPrivateData& privateData() const { return private_data_; }
  SocketAddress peer() const;
  // Refuses the request, with a reason that the peer may read.
  void reject(std::span<const std::byte> reason = {});

 private:
  friend class CmConnection;
  friend class CmListener;
  CmChannel channel_;  // first member, so that the id is destroyed before its channel
  CmId id_;
  CmPrivateData private_data_;
};

class CmListener {
 public:
  // Listens on one of cmAddresses(). If its port number is 0, the system chooses one. `quiet`: as in CmPath.
  static Result<CmListener> create(ibv_context* context, const Port& port, const SocketAddress& address,
                                   int backlog, bool quiet = false);

  const SocketAddress& address() const { return address_; }  // with the port number
  // The next request; nothing if there is none. After an error the listener is unusable.
  Result<std::optional<CmRequest>> poll();

 private:
  CmListener() = default;
  CmChannel channel_;
  CmId id_;
  std::string device_;  // name, for messages
  SocketAddress address_;
};

class CmConnection {
 public:
  // Begins to connect. `local` is one of cmAddresses(). `private_data` has at most kCmRequestBytes.
  static Result<std::unique_ptr<CmConnection>> connect(QueuePair queue_pair, const Port& port,
                                                       const SocketAddress& local, const SocketAddress& peer,
                                                       const Config& config, const CmPath& path,
                                                       std::span<const std::byte> private_data);
  // Answers a request. `private_data` has at most kCmReplyBytes.
  static Result<std::unique_ptr<CmConnection>> accept(CmRequest request, QueuePair queue_pair,
                                                      const Port& port, const Config& config,
                                                      const CmPath& path,
                                                      std::span<const std::byte> private_data);
  ~CmConnection();  // notifies the peer, if it is still there
  CmConnection(const CmConnection&) = delete;
  CmConnection& operator=(const CmConnection&) = delete;

  // Notifies the peer and destroys the queue pair; nothing else may be called then but the destructor. On an
  // error, the driver's errno, the queue pair still exists.
  int destroyQueuePair();

  // True once the queue pair is in RTS and the peer knows that. False: not yet. Call it later too: it returns
  // kRemote when the peer has disconnected.
  Result<bool> advance();

  ibv_qp* qp() const { return queue_pair_.qp.get(); }
  // Private data of the reply (connect: valid once advance() has returned true; accept: empty).
  const CmPrivateData& reply() const { return reply_; }
  // Becomes readable when advance() has something to do.
  int fd() const { return channel_->fd; }

 private:
  enum class State {
    kResolving,     // nothing is sent yet
    kConnecting,    // the request is sent
    kEstablishing,  // the reply is sent
    kUp,
  };

  CmConnection() = default;
  static std::unique_ptr<CmConnection> make(QueuePair queue_pair, const Port& port, const Config& config,
                                            const CmPath& path);
  Status resolve();
  Status tryAgain();
  void disconnect();
  void setTypeOfService();
  uint8_t readDepth() const;
  rdma_conn_param parameters(std::span<const std::byte> private_data) const;
  Status step(const rdma_cm_event& event);
  Status stepOnError(const rdma_cm_event& event);
  Status checkDevice();
  Status bringUp();
  Status enter(ibv_qp_state state);
  std::string describe(const std::string& what) const;
  Status give(const std::string& what, Code code = Code::kRemote);
  Status fail(const char* what, int error);
  Status fail(const std::string& what, Status status);

  CmChannel channel_;
  CmId id_;
  QueuePair queue_pair_;  // after id_, so that the queue pair is destroyed before the id
  State state_ = State::kResolving;
  int ports_tried_ = 0;
  int times_resolved_ = 0;
  bool again_ = false;  // begin again, with another id
  Port port_;
  CmPath path_;
  uint8_t timeout_ = 0;
  uint8_t retry_count_ = 0;
  SocketAddress local_;
  SocketAddress peer_;
  CmPrivateData request_;
  CmPrivateData reply_;
  Status failure_;
};

// Shared by the listener and the connections of the communication manager: how they make their objects.

// On iWARP the manager's port numbers are also TCP's, so another socket may have one. Only listening or
// connecting shows that (EADDRINUSE). Then another port number is tried, at most this many times.
constexpr int kPortTries = 16;

// Make an event channel that never waits, and an id on it. Null with errno on failure.
CmChannel makeCmChannel(const CmLibrary& cm);
CmId makeCmId(const CmLibrary& cm, rdma_event_channel* channel);

CmPrivateData copyOf(const rdma_cm_event& event);

// The address in the form that the manager takes.
sockaddr_storage storageOf(const SocketAddress& address);
inline sockaddr* raw(sockaddr_storage& storage) { return reinterpret_cast<sockaddr*>(&storage); }

inline const char* deviceName(const ibv_context* context) {
  return library().get_device_name(context->device);
}

}  // namespace railwise::verbs
