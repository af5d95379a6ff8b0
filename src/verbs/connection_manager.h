// Connections that the RDMA communication manager (librdmacm, or the software device's) brings up: the only
// way on iWARP, and one of two elsewhere. Nothing here blocks, sleeps or has a thread: advance() looks
// whether something has happened, and the caller decides how long it goes on asking.
//
//   acceptor: CmListener listener = CmListener::create(context, port, address);   // its port() travels to
//   the peer
//             listener.poll() -> CmRequest (private data) -> CmConnection::accept(request, queue pair, ...)
//   caller:   CmConnection::connect(queue pair, address, peer, ...)
//   both:     advance() until it says true
//
// The queue pair comes from createQueuePair(), in INIT: post receives before connect() or accept(), for on
// iWARP a send that finds no receive ends the connection. It belongs to the connection from then on and goes
// with it. Until advance() has said true nothing may be posted to its send queue.
// Each object has an event channel of its own (one descriptor) and is used by one thread at a time. The
// context and all that the queue pair was made of outlive it. Errors are logged once, with device, addresses
// and what to do; the codes are kNoDevice (no librdmacm), kSystem (a call failed) and kRemote (refused, gone,
// or nobody there).
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/socket.h"
#include "verbs/port.h"
#include "verbs/queue_pair.h"

namespace railwise::verbs {

// Private data that a request and a reply can carry (InfiniBand's limits less the CM's own header).
constexpr size_t kCmRequestBytes = 56;
constexpr size_t kCmReplyBytes = 196;

// Bytes with a length: what came may be longer than what was sent (InfiniBand fills up with zeros).
struct CmPrivateData {
  std::array<std::byte, kCmReplyBytes> bytes = {};
  size_t size = 0;
  std::span<const std::byte> span() const { return {bytes.data(), size}; }
};

// The addresses under which the communication manager finds this port, best first, each with port 0. Empty
// where it has none (InfiniBand without IP over IB). Of a real device this asks the kernel about every
// address of the machine, and believes the answer for ten seconds. Errors: kNoDevice, when librdmacm is
// missing.
Result<std::vector<SocketAddress>> cmAddresses(ibv_context* context, const Port& port);

// The address in 16 bytes (IPv4 mapped, as a GID has it) for a handshake, and back. `scope_id` is local to a
// machine: for a link-local peer, that of our own address.
ibv_gid cmAddressBytes(const SocketAddress& address);
SocketAddress cmAddressOf(const ibv_gid& bytes, uint16_t port, uint32_t scope_id);

// What the path between both ends shall be like.
struct CmPath {
  uint8_t traffic_class = 0;
};

struct CmRelease {
  void operator()(rdma_event_channel* channel) const;
  void operator()(rdma_cm_id* id) const;
};
using CmChannel = std::unique_ptr<rdma_event_channel, CmRelease>;
using CmId = std::unique_ptr<rdma_cm_id, CmRelease>;

// A peer that asks for a connection. Dropped unanswered, it is refused.
class CmRequest {
 public:
  const CmPrivateData& privateData() const { return private_data_; }
  SocketAddress peer() const;
  // Says no, with a reason that the peer may read.
  void reject(std::span<const std::byte> reason = {});

 private:
  friend class CmConnection;
  friend class CmListener;
  CmChannel channel_;  // first: the id goes before its channel
  CmId id_;
  CmPrivateData private_data_;
};

class CmListener {
 public:
  // On one of cmAddresses(); its port number is chosen by the system when it is 0.
  static Result<CmListener> create(ibv_context* context, const Port& port, const SocketAddress& address,
                                   int backlog);

  const SocketAddress& address() const { return address_; }  // with the port number
  // The next request, nothing when there is none. An error means that the listener is of no use any more.
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
  // Begins to connect. `local` is one of cmAddresses(), `private_data` at most kCmRequestBytes.
  static Result<std::unique_ptr<CmConnection>> connect(QueuePair queue_pair, const Port& port,
                                                       const SocketAddress& local, const SocketAddress& peer,
                                                       const Config& config, const CmPath& path,
                                                       std::span<const std::byte> private_data);
  // Answers a request. `private_data` at most kCmReplyBytes.
  static Result<std::unique_ptr<CmConnection>> accept(CmRequest request, QueuePair queue_pair,
                                                      const Port& port, const Config& config,
                                                      const CmPath& path,
                                                      std::span<const std::byte> private_data);
  ~CmConnection();  // tells the peer, if it still is there
  CmConnection(const CmConnection&) = delete;
  CmConnection& operator=(const CmConnection&) = delete;

  // True once the queue pair is in RTS and the other end knows it; false: not yet. Goes on being useful
  // afterwards: kRemote when the peer has disconnected.
  Result<bool> advance();

  ibv_qp* qp() const { return queue_pair_.qp.get(); }
  uint32_t inlineBytes() const { return queue_pair_.inline_bytes; }
  // What came with the reply (connect: valid once advance() said true; accept: empty).
  const CmPrivateData& reply() const { return reply_; }
  // The descriptor that becomes readable when advance() has something to do.
  int fd() const { return channel_->fd; }

 private:
  enum class State {
    kResolving,     // nothing has left yet
    kConnecting,    // the request is out
    kEstablishing,  // the reply is out
    kUp,
  };

  CmConnection() = default;
  static std::unique_ptr<CmConnection> make(QueuePair queue_pair, const Port& port, const Config& config,
                                            const CmPath& path);
  Status resolve();
  Status tryAgain();
  void setTypeOfService();
  rdma_conn_param parameters(std::span<const std::byte> private_data) const;
  Status step(const rdma_cm_event& event);
  Status stepOnError(const rdma_cm_event& event);
  Status checkDevice();
  Status bringUp();
  Status enter(ibv_qp_state state);
  std::string describe(const std::string& what) const;
  Status give(const std::string& what, Code code = Code::kRemote);
  Status fail(const char* what, int error);

  CmChannel channel_;
  CmId id_;
  QueuePair queue_pair_;  // goes before the id
  State state_ = State::kResolving;
  int ports_tried_ = 0;
  int times_resolved_ = 0;
  bool again_ = false;  // from the beginning, with another id
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

}  // namespace railwise::verbs
