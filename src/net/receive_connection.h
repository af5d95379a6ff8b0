// The receiving end of a connection: tells the sender where to write, and sees from the immediates what has
// arrived. Threads: see connection.h.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/fixed_pool.h"
#include "net/connection.h"
#include "net/postponed.h"

namespace railwise::net {

// One receive of a grouped irecv.
struct ReceiveBuffer {
  uint64_t address;
  std::size_t bytes;
  int tag;
  const MemoryHandle* memory;  // may be null when bytes is 0
  void* profiler = nullptr;    // NCCL's handle for events, or null
};

class ReceiveConnection final : public Connection {
 public:
  // Pairs the rails with those of the request and makes the queue pairs. `refusal` tells the peer why when
  // that fails.
  static Result<std::unique_ptr<ReceiveConnection>> create(const Device& device,
                                                           const ConnectionOptions& options,
                                                           const EndInfo& request, std::string& refusal);
  // What the reply says of this end.
  const EndInfo& local() const { return local_; }
  // Before the reply: queue pairs to "ready to send", or the places where the connection manager listens.
  // ETIMEDOUT: a way is not resolved yet (ARP); the same again later.
  Status prepare(const EndInfo& request);
  // After the reply: true when all queue pairs are up.
  Result<bool> establish(const EndInfo& request, uint64_t nonce);

  // Receives up to kMaxReceives messages as one request. *request null: too many outstanding, call again.
  // `silent`: NCCL sees by itself when the data are there; the request is complete at once. The sender hears
  // of it now or with the next test() of any request: as many receives as were posted between two tests are
  // expected between the next two, and travel together.
  Status irecv(std::span<const ReceiveBuffer> buffers, bool silent, Request** request);
  // Makes received data visible to whoever reads `address` behind the NIC: a read of it through each rail
  // that carried data of the receive there. *request null: nothing to wait for (NCCL_GDR_FLUSH_DISABLE).
  Status iflush(uint64_t address, const MemoryHandle& memory, Request** request);
  Result<bool> progress(const Request& request);
  // A row of receives ends with a test(), which also posts what found no room before.
  bool inRow() const { return (row_ | pending_) != 0; }
  Status endRow();
  // Posts the clear-to-sends that wait, as far as there is room.
  Status postPending();
  // Bytes of the largest receive that is open, as far as its buffers say.
  uint64_t largestUnderWay() const;
  // The sizes of a receive that has completed; `sizes` may be null.
  void report(const Request& request, int* sizes) const;
  void release(Request& request);

 private:
  // What of a receive belongs to one of its buffers.
  struct Piece {
    uint32_t size;  // that has arrived
    uint32_t room;  // that the posted buffer has
    uint64_t address;
  };
  // The first cache line is all that a receive of one buffer needs.
  struct alignas(64) Receive : Request {
    uint64_t number = 0;
    uint32_t arrived = 0;  // bit p: part p is here
    uint32_t parts = 0;    // 0: not yet known
    uint16_t rails = 0;    // bit r: rail r has carried some of it
    bool silent = false;
    bool profiled = false;  // some event is not null
    std::array<Piece, kMaxReceives> pieces = {};
    std::array<void*, kMaxReceives> events = {};  // the profiler's
  };
  struct Flush : Request {
    uint32_t reads = 0;  // outstanding
  };
  static constexpr uint32_t kReplenish = kOutstandingReceives;
  static constexpr uint32_t kClearToSendDepth = 64;
  static constexpr uint32_t kClearToSendSignal = 16;  // every so many ask for a completion

  using Connection::Connection;
  // Set-up (receive_connection.cc).
  Status openWindow(int queue_pairs);
  Status pair(const EndInfo& request, std::string& refusal);
  Status openQueuePairs();
  void describePairing(const EndInfo& request);
  Status listenForConnectionManager();
  Status answer(verbs::CmRequest request, uint8_t rail, const EndInfo& peer, uint64_t nonce);
  Status openFlushQueuePair(uint8_t rail);

  // Data path (receive_datapath.cc).
  Status postReceives(std::size_t queue_pair, uint32_t first);
  void fillClearToSend(const Receive& receive, uint32_t slot, std::span<const ReceiveBuffer> buffers);
  Status postClearToSend(const std::byte* from, std::size_t offset, uint32_t bytes);
  std::byte* stagingOf(uint32_t slot, uint32_t i) const;
  uint32_t railsOf(uint64_t address) const;
  Status postFlush(Flush& flush, uint8_t rail, uint64_t address, uint32_t remote_key);
  Status failFlush(std::size_t rail, const ibv_wc& completion);
  Status poll();
  void onCompletion(const ibv_wc& completion);
  Status onData(std::size_t queue_pair, const ibv_wc& completion);
  Status onImmediate(std::size_t queue_pair, uint32_t value, const Record* record, uint32_t record_bytes);
  Status complete(Receive& receive);
  Status failTooLong(const Piece& piece);
  void startEvents(Receive& receive, std::span<const ReceiveBuffer> buffers);
  void stopEvents(Receive& receive);
  EndInfo local_ = {};
  Record* records_ = nullptr;         // written by the sender
  std::byte* staging_ = nullptr;      // source of the clear-to-send writes
  Record* notices_ = nullptr;         // iWARP: buffers of the receives
  uint64_t* flush_target_ = nullptr;  // where flush reads land
  uint32_t entry_bytes_ = sizeof(ClearToSend);
  bool may_be_silent_ = false;  // receives may go without a completion: NCCL_NET_OPTIONAL_RECV_COMPLETION
  struct RailListener {
    uint8_t rail;
    verbs::CmListener listener;
  };
  std::vector<RailListener> cm_listeners_;  // while connecting
  std::vector<verbs::Qp> flush_qps_;        // by rail; null until one is needed
  Status flush_failure_;          // flushes need no peer: they outlive the failure of the connection
  uint64_t next_number_ = 1;      // of the next receive
  uint64_t consumed_number_ = 0;  // the sender has matched all receives up to this one
  uint32_t next_place_ = 0;       // in the sender's ring, of the next entry
  uint32_t pending_ = 0;          // entries before it that are not posted yet
  uint32_t row_ = 0;              // receives posted since the last test()
  uint32_t expected_row_ = 1;     // as many as were the last time
  uint8_t reply_queue_pair_ = 0;  // the one that brought data last: clear to send goes back there
  std::array<ibv_recv_wr, kReplenish> receive_chain_ = {};
  std::array<ibv_sge, kReplenish> receive_segments_ = {};
  std::array<Receive, kSlots> receives_;
  FixedPool<Flush, kOutstandingFlushes> flushes_;
  Postponed postponed_{*this};
};

}  // namespace railwise::net
