// A connection carries messages one way: SendConnection at the end that called connect, ReceiveConnection at
// the end that called accept. Both own a reliable queue pair, its completion queue and the memory the other
// end writes into.
//
// Threads: made and closed by NCCL's service thread; isend, irecv, iflush and test belong to one thread at a
// time (NCCL's progress thread). Registering memory meanwhile is safe: it touches only the device's cache.
// Any error of the data path is logged once and sticks: every later call returns it. Closing with work
// outstanding is safe at any time.
#pragma once

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/config.h"
#include "base/fixed_pool.h"
#include "base/socket.h"
#include "net/device.h"
#include "net/handshake.h"
#include "net/request.h"
#include "net/wire.h"
#include "verbs/queue_pair.h"

namespace railwise::net {

enum class Direction : uint8_t { kSend, kReceive };

// What connect and accept need to know to build one end.
struct ConnectionOptions {
  const Config& config;
  const std::string& local_host;
  int traffic_class;  // the communicator's; negative: undefined
};

class Context;

class Connection {
 public:
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Direction direction() const { return direction_; }
  const Device& device() const { return device_; }
  // The communicator that owns this connection; set when it is handed out.
  Context* owner() const { return owner_; }
  void setOwner(Context* owner) { owner_ = owner; }
  MemoryCache& memory() const { return device_.hca->memory(); }
  // "host:pid (mlx5_1 qp 77)" of the other end; valid once established.
  const std::string& peer() const { return peer_; }

  // Brings the queue pair to "ready to send" towards `remote`. Errors are logged.
  Status establish(const ConnectionOptions& options, const EndInfo& remote);
  // The socket of the finished handshake; it stays open, since its end tells of the peer's death.
  void attach(Socket side_channel) {
    side_channel.keepAlive();
    side_channel_ = std::move(side_channel);
  }

  // Has `request` completed? Then its sizes go to `sizes` (may be null): one for a send, `count` for a
  // receive, none for a flush; and the request is free. Never blocks. Errors: kRemote, kSystem.
  Result<bool> test(Request& request, int* sizes);

 protected:
  Connection(Direction direction, const Device& device) : direction_(direction), device_(device) {}
  ~Connection() { side_channel_.shutdown(); }

  Status openQueuePair(const ConnectionOptions& options, int completions, verbs::QueuePairSize size);
  // What the peer must know of this end; kept for establish().
  EndInfo describe(const ConnectionOptions& options, uint64_t window_address);

  // Logs, remembers and returns the failure, and lets the peer know by the end of the side channel.
  Status fail(Status status, const std::string& what);
  Status failPost(const char* call, int error);
  Status failCompletion(const ibv_wc& completion, const char* operation);
  // Called when there is nothing to do but wait: now and then looks whether the peer is still there. When it
  // has left, a wait for something it should still do (kPeer) is soon over; a kAcknowledgement may still be
  // on its way.
  enum class Waiting : uint8_t { kPeer, kAcknowledgement };
  Status idle(Waiting waiting) {
    return (++idle_polls_ & kIdleMask) != 0 ? Status::success() : checkPeer(waiting);
  }

  static constexpr int kPollBatch = 16;

  const Direction direction_;
  const Device& device_;
  Status failure_;
  EndInfo local_ = {};
  uint32_t piece_bytes_ = 0;   // largest work request both ports take
  uint32_t inline_bytes_ = 0;  // what the queue pair sends inline
  uint64_t peer_window_ = 0;
  uint32_t peer_window_key_ = 0;
  RegisteredPages pages_;
  verbs::Cq cq_;
  verbs::Qp qp_;
  verbs::Gid gid_;

 private:
  static constexpr uint32_t kIdleMask = 0xff;
  Status checkPeer(Waiting waiting);

  Context* owner_ = nullptr;
  uint32_t idle_polls_ = 0;
  Clock::time_point peer_left_ = {};  // when that was first seen
  Clock::time_point last_check_ = {};
  Socket side_channel_;
  std::string peer_;
};

class SendConnection final : public Connection {
 public:
  static Result<std::unique_ptr<SendConnection>> create(const Device& device,
                                                        const ConnectionOptions& options);
  EndInfo describe(const ConnectionOptions& options);

  // Sends `bytes` at `address` to the next receive with `tag`. *request null: the receiver is not ready, call
  // again. `memory` may be null when bytes is 0. Errors: kInvalidArgument (longer than the receive or than
  // the device's limit).
  Status isend(uint64_t address, std::size_t bytes, int tag, const MemoryHandle* memory, Request** request);
  // For test(): polls until nothing more is there; true when `request` has completed.
  Result<bool> progress(const Request& request);
  void release(Request& request);

 private:
  struct Window;
  struct Pending {
    Request* request;
    uint64_t address;
    uint32_t local_key;
    uint32_t bytes;
  };
  struct Group {  // posted, waiting for its completion; count 0: none
    std::array<Request*, kMaxReceives> requests;
    uint8_t count;
    uint16_t work_requests;
  };
  // Work requests are built and linked once; a send fills in what varies.
  static constexpr int kChain = 16;

  using Connection::Connection;
  Status drain();
  Status openGroup();
  // All sends of the group are there, but the send queue had no room for them yet.
  bool groupWaits() const { return group_count_ > 0 && matched_ == group_count_; }
  int match(int tag) const;
  Status checkSize(std::size_t bytes, const ClearToSend& entry);
  uint32_t pieces(uint32_t bytes) const { return bytes == 0 ? 0 : (bytes - 1) / piece_bytes_ + 1; }
  Status postGroup();
  Status appendMessage(const Pending& pending, const ClearToSend& entry, bool last, uint32_t slot);
  Status appendSizes(uint32_t slot);
  ibv_send_wr& nextWorkRequest(uint64_t remote_address, uint32_t remote_key);
  static void addImmediate(ibv_send_wr& work_request, uint32_t value, uint32_t slot);
  Status postChain();

  Window* window_ = nullptr;
  uint64_t next_number_ = 1;  // the receive that is being matched
  int group_count_ = 0;       // its entries; 0: its clear-to-send has not been seen yet
  int matched_ = 0;
  std::array<Pending, kMaxReceives> pending_ = {};
  std::array<Group, kSlots> groups_ = {};
  uint32_t send_queue_free_ = 0;
  int chain_length_ = 0;
  std::array<ibv_send_wr, kChain> chain_ = {};
  std::array<ibv_sge, kChain> segments_ = {};
  FixedPool<Request, kOutstandingSends> requests_;
};

// One receive of a grouped irecv.
struct ReceiveBuffer {
  uint64_t address;
  std::size_t bytes;
  int tag;
  const MemoryHandle* memory;  // may be null when bytes is 0
};

class ReceiveConnection final : public Connection {
 public:
  static Result<std::unique_ptr<ReceiveConnection>> create(const Device& device,
                                                           const ConnectionOptions& options);
  EndInfo describe(const ConnectionOptions& options);

  // Receives up to kMaxReceives messages as one request. *request null: too many outstanding, call again.
  Status irecv(std::span<const ReceiveBuffer> buffers, Request** request);
  // Makes received data visible to whoever reads `address` behind the NIC: a read of it through the NIC.
  Status iflush(uint64_t address, const MemoryHandle& memory, Request** request);
  Result<bool> progress(const Request& request);
  void release(Request& request);

 private:
  struct Window;
  // More receives are posted than can be outstanding, so that half of them can be replaced at once.
  static constexpr int kPostedReceives = 2 * kOutstandingReceives;
  static constexpr int kReplenish = kOutstandingReceives;
  static constexpr uint32_t kClearToSendDepth = 64;
  static constexpr uint32_t kClearToSendSignal = 16;  // every so many ask for a completion
  enum WorkKind : uint64_t { kDataWork = 0, kClearToSendWork = 1, kFlushWork = 2 };  // high half of wr_id

  using Connection::Connection;
  Status openFlushQueuePair();
  Status postReceives();
  Status postClearToSend(uint32_t slot, int count);
  Status poll();
  void onCompletion(const ibv_wc& completion);
  Status onData(const ibv_wc& completion);

  const Config* config_ = nullptr;
  Window* window_ = nullptr;
  verbs::Qp flush_qp_;             // null until it is needed
  Status flush_failure_;           // flushes need no peer: they outlive the failure of the connection
  uint64_t next_number_ = 1;       // of the next receive
  uint64_t completed_number_ = 0;  // of the last receive whose data has arrived
  int consumed_ = 0;               // posted receives used up since the last replenishing
  uint32_t clear_to_send_free_ = kClearToSendDepth;
  uint32_t unsignalled_ = 0;
  std::array<ibv_recv_wr, kReplenish> receive_chain_ = {};
  std::array<Request, kSlots> requests_ = {};
  std::array<SlotSizes, kSlots> room_ = {};  // bytes each posted buffer takes
  FixedPool<Request, kOutstandingFlushes> flushes_;
};

}  // namespace railwise::net
