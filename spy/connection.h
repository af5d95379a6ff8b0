// What the spy keeps of NCCL's objects. NCCL gets pointers to these objects instead of the plugin's own, so
// that the spy sees a call on an object that is closed, done or of another kind.
//
// Threads, as NCCL calls: the communicator's service thread opens and closes connections and registers
// memory; its progress thread posts and tests requests, at the same time.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>

#include "nccl/context_room.h"
#include "nccl/types.h"
#include "record/layout.h"

namespace railwise::spy {

// The first field of each object but a context, into whose first bytes NCCL may store. What NCCL hands over
// is asked for it.
enum class Kind : uint64_t {
  kContext = 0x7870735f77725f63,
  kListener = 0x7870735f77725f6c,
  kConnection = 0x7870735f77725f73,
  kRequest = 0x7870735f77725f71,
};

struct Device {
  int index = 0;
  std::string name;
  int port = 1;
  int mbps = 0;
  int max_receives = 1;
  int rail = NCCL_NET_ID_UNDEF;
  int plane = NCCL_NET_ID_UNDEF;
  uint16_t place = record::kNoRail;  // in the record's table of rails
};

// A communicator, in API v11 and later.
struct Context {
  ncclContextRoom room;
  const Kind kind = Kind::kContext;
  void* inner = nullptr;
  uint64_t communicator = 0;
  bool ended = false;
};

struct Listener {
  const Kind kind = Kind::kListener;
  void* inner = nullptr;
  bool closed = false;
  Context* context = nullptr;
  Device device;
};

class Connection;

struct Request {
  static constexpr int kSizes = 8;  // of a group's buffers that are known

  enum class State : uint8_t { kFree, kOpen, kDone };

  const Kind kind = Kind::kRequest;
  Connection* connection = nullptr;
  void* inner = nullptr;
  State state = State::kFree;
  record::CallKind call = record::CallKind::kIsend;
  bool optional = false;  // NCCL has said that it needs no completion
  int count = 0;          // of buffers
  uint64_t number = 0;    // of the message
  uint64_t bytes = 0;
  uint64_t posted_ns = 0;
  std::array<uint64_t, kSizes> sizes = {};
  Request* previous = nullptr;  // in the list of open requests; the free list uses `next` only
  Request* next = nullptr;
};

// Where the time of a connection goes, as far as NCCL's calls tell.
enum class Wait : uint8_t {
  kNccl,     // no request is open: NCCL has nothing to do, or does not call
  kPeer,     // sender: isend has given no request and none is open, so the receiver is not ready
  kNetwork,  // a request is open
  kPlugin,   // inside a call of the plugin's that has posted or completed a request
};
inline constexpr int kWaits = 4;

// What is counted of a connection. All of it is written by NCCL's progress thread.
struct Figures {
  uint64_t messages = 0;  // sends, or receives
  uint64_t done = 0;
  uint64_t bytes = 0;  // of sends: posted; of receives: arrived
  std::array<record::CallCounts, record::kCalls> calls = {};
  std::array<uint64_t, record::kCalls> longest_ns = {};
  std::array<uint64_t, record::kCalls> errors = {};
  std::array<uint32_t, record::kBuckets> latency = {};  // nanoseconds from isend or irecv to done
  std::array<uint32_t, record::kBuckets> size = {};     // bytes
  std::array<uint32_t, 8> groups = {};                  // irecv calls with 1 to 8 buffers
  std::array<uint64_t, kWaits> wait_ns = {};
  uint64_t longest_gap_ns = 0;  // between two calls of NCCL while a request was open
  uint64_t most_open = 0;       // requests at once
  uint64_t open = 0;            // requests now
};

// A call of the plugin's.
struct Call {
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  ncclResult_t result = ncclSuccess;
};

// What isend, irecv or iflush was given.
struct Posted {
  record::CallKind call = record::CallKind::kIsend;
  bool optional = false;
  int count = 1;
  uint64_t bytes = 0;
  std::array<uint64_t, Request::kSizes> sizes = {};
};

class Connection {
 public:
  // `setup_ns`: from NCCL's first call of connect or accept for it.
  Connection(record::Side side, void* inner, Device device, Context* context, uint64_t setup_ns);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Kind kind() const { return kind_; }
  void* inner() const { return inner_; }
  record::Side side() const { return side_; }
  bool closed() const { return closed_; }
  Context* context() const { return context_; }
  const Device& device() const { return device_; }
  uint64_t number() const { return number_; }
  uint64_t setupNs() const { return setup_ns_; }
  const Figures& figures() const { return figures_; }
  // "sender 3 on mlx5_0"
  std::string name() const;
  // Null after close.
  record::ConnectionRecord* record() const { return page_ != nullptr ? &page_->connection : nullptr; }

  // ---- the progress thread

  // Before each call of the plugin's, so that the record of a process that hangs in it tells.
  void enter(record::CallKind kind, uint64_t now);
  // Before isend, irecv or iflush: looks for breaches of NCCL's.
  void beforePost(const Posted& posted);
  // After isend, irecv or iflush: `given` was in *request when NCCL called, `made` is there now. Returns what
  // NCCL shall have there.
  void* afterPost(const Posted& posted, void* given, void* made, const Call& call);
  // After test. `done` and `sizes`: what the plugin has written; kUnwritten where it has written nothing.
  // `sizes` is null where NCCL did not ask.
  void afterTest(Request& request, int done, const int* sizes, const Call& call);
  static constexpr int kUnwritten = INT32_MIN + 1;

  // ---- the service thread

  void registered(void* memory);
  // False: it is not registered with this connection.
  bool deregistered(void* memory);
  std::size_t registeredNow();
  // No further calls are counted, and the record no longer shows it.
  void close();

 private:
  void count(record::CallKind kind, const Call& call, bool idle);
  // Gives the time since the last account to `wait`.
  void account(Wait wait, uint64_t now);
  Wait waitNow() const;
  void show(uint64_t now);
  Request* takeRequest();
  void open(Request& request);
  void finish(Request& request);

  const Kind kind_ = Kind::kConnection;
  const record::Side side_;
  bool closed_ = false;
  bool said_too_many_ = false;
  void* const inner_;
  Context* const context_;
  const Device device_;
  const uint64_t number_;
  const uint64_t setup_ns_;
  void* page_memory_ = nullptr;
  record::ConnectionPage* page_ = nullptr;
  Figures figures_;

  uint64_t accounted_ns_ = 0;      // up to when wait_ns is complete; 0: before the first message
  uint64_t last_call_ns_ = 0;      // the end of NCCL's last call
  uint64_t refused_since_ns_ = 0;  // since when isend gives no request; 0: it gave one
  uint64_t refused_bytes_ = 0;

  std::deque<Request> requests_;
  Request* free_first_ = nullptr;
  Request* free_last_ = nullptr;
  std::size_t free_count_ = 0;
  Request* open_first_ = nullptr;
  Request* open_last_ = nullptr;

  std::mutex memory_mutex_;
  std::unordered_map<void*, std::size_t> memory_;
};

}  // namespace railwise::spy
