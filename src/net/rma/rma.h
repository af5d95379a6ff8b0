// One-sided communication, as NCCL's RMA table asks for it: puts, puts with a signal, gets and flushes between
// the ranks of a group. docs/one-sided.md has the protocol.
//
//   RmaNet      what init returns: the groups of one communicator
//   RmaGroup    NCCL's collComm: ranks that reach each other over one device of each
//   RmaContext  NCCL's rmaCtx: `contexts` streams to each rank; operations of a stream complete in order
//   RmaWindow   NCCL's mhandle: memory that all ranks of a group have registered, each its own part
//
// Threads: groups are made and closed, and windows registered and deregistered, by any thread, also while
// another thread calls put(), test() and progress(). The operations of one context come from one thread at a
// time. Nothing here waits for the network: what cannot be posted yet is kept, and progress() or test()
// posts it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "net/limits.h"
#include "net/net.h"

namespace railwise::net {

class RmaContext;
class RmaGroup;
class RmaListener;
class RmaNet;
class RmaRequest;
class RmaWindow;

// NCCL keeps at most 32 * maxRecvs requests open for each context and rank, and one put to itself that it does
// not count (rma_proxy_progress.cc, NCCL 2.30.7).
inline constexpr int kRmaMaxRequests = 32 * kMaxReceives;

// Flags of regMrSym (NCCL's mrFlags).
inline constexpr uint64_t kRmaStrongOrder = 1;  // FORCE_SO: no relaxed ordering
inline constexpr uint64_t kRmaNeverReset = 2;   // SIGNAL_NEVER_RESET: nobody sets signals in it back

// A place in the part of a window that one rank has registered.
struct RmaPlace {
  RmaWindow* window = nullptr;
  uint64_t offset = 0;
};

// What a put adds to 8 bytes of the target when all its data, and all that was put before it in its stream,
// are there.
struct RmaSignal {
  RmaPlace at;
  uint64_t value = 0;
};

class RmaContext {
 public:
  // Puts `bytes` from `from`, in this rank's part, to `to`, in the part of `rank`, and then adds the signal
  // (null: there is none). `context` counts from 0. `bytes` 0: the signal alone, the windows of the data may
  // be null. `more` (AggregateRequests): another operation for this rank follows at once. Errors:
  // kInvalidArgument, logged (no such rank or context, beyond the end of a part, a signal that is not
  // aligned to 8 bytes); kRemote, kSystem (the group has failed).
  Status put(int context, const RmaPlace& from, std::size_t bytes, const RmaPlace& to, uint32_t rank,
             const RmaSignal* signal, bool more, RmaRequest** request);
  // Reads `bytes` from `from`, in the part of `rank`, to `to` in this rank's part.
  Status get(int context, const RmaPlace& from, std::size_t bytes, const RmaPlace& to, uint32_t rank,
             bool more, RmaRequest** request);
  // Makes what gets have brought visible to this rank's GPU. `window` may be null. *request null: there is
  // nothing to wait for.
  Status flush(int context, RmaWindow* window, uint32_t rank, RmaRequest** request);
  // Drives the whole group: connections of peers, what waits, signals that have arrived.
  Status progress();
  // From any thread: the group has failed.
  bool failed() const;
  RmaGroup& group() const;
  // Ends the context; operations that are open are dropped. Never waits for the network.
  static void destroy(RmaContext* context);
};

class RmaGroup {
 public:
  // Makes `contexts` streams to each rank. Local: no rank waits for another one. Equal on all ranks, in the
  // same order. Errors: kInvalidArgument (too many contexts).
  Result<RmaContext*> createContext(int contexts, int traffic_class);
  // Registers this rank's part of a window. All ranks do this in the same order, each for its own part; a
  // registration that fails does not count. Errors: as of MemoryCache::acquire().
  Result<RmaWindow*> registerMemory(uint64_t address, std::size_t bytes, MemoryKind kind, uint64_t flags);
  Result<RmaWindow*> registerDmaBuf(uint64_t address, std::size_t bytes, uint64_t offset, int fd,
                                    uint64_t flags);
  // Also after the contexts were destroyed.
  void deregister(RmaWindow* window);
  // Is the request done? Then it is freed. Drives the whole group, too. Errors: as the request's context.
  Status test(RmaRequest& request, bool* done);
  static void close(RmaGroup* group);
};

class RmaNet {
 public:
  // `communicator`: NCCL's hash of it.
  RmaNet(Net& net, uint64_t communicator);
  ~RmaNet();

  // `handle` receives kHandleBytes bytes.
  Result<RmaListener*> listen(int device, void* handle);
  // Makes the group of the listener's device. Talks to nobody: connections come up when they are first used.
  // `handles`: of all ranks, in their order. NCCL hands another network's context to connect(), so everything
  // comes from the listener. Errors, logged: kInvalidUsage (a handle is not Railwise's; the line names the
  // rank), kInvalidArgument.
  static Result<RmaGroup*> connect(RmaListener& listener, std::span<const void* const> handles, int rank);
  static void close(RmaListener* listener);
};

}  // namespace railwise::net
