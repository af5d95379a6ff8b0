// One-sided communication, as NCCL's RMA table asks for it: puts, puts with a signal, gets and flushes
// between the ranks of a group. docs/develop/rma-protocol.md has the protocol.
//
//   RmaNet      what init returns: the groups of one communicator
//   RmaGroup    NCCL's collComm: ranks that reach each other over one device of each (rma_group.h)
//   RmaContext  NCCL's rmaCtx: `contexts` streams to each rank; operations of a stream complete in order
//   RmaWindow   NCCL's mhandle: memory that all ranks of a group have registered, each its own part
//
// Nothing here waits for the network: what cannot be posted yet is kept, and RmaContext::progress() or
// RmaGroup::test() posts it. Threads: any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "net/net.h"
#include "net/rma/rma_group.h"

namespace railwise::net {

class RmaListener {
 public:
  const Device& device() const { return device_; }

 private:
  friend class RmaNet;
  RmaListener(RmaNet& owner, const Device& device, const ConnectionOptions& options)
      : owner_(owner), device_(device), options_(options) {}

  RmaNet& owner_;
  const Device& device_;
  const ConnectionOptions options_;
  std::unique_ptr<ManyListener<PutTarget>> listener_;                        // null once a group has it
  std::shared_ptr<RmaGroup*> group_ = std::make_shared<RmaGroup*>(nullptr);  // whose ends it makes
};

class RmaNet {
 public:
  // `communicator`: NCCL's hash of it.
  RmaNet(Net& net, uint64_t communicator) : net_(net), communicator_(communicator) {}

  // `handle` receives kHandleBytes bytes.
  Result<RmaListener*> listen(int device, void* handle);
  // Makes the group of the listener's device. `rank`: one of those of `handles`, none of which is null. Talks
  // to nobody: connections come up when they are first used. `handles`: of all ranks, in their order. NCCL
  // hands another network's context to connect(), so everything comes from the listener. Errors, logged:
  // kInvalidUsage (a handle is not Railwise's; the line names the rank).
  static Result<RmaGroup*> connect(RmaListener& listener, std::span<const void* const> handles, int rank);
  static void close(RmaListener* listener);

 private:
  friend class RmaGroup;

  Net& net_;
  const uint64_t communicator_;
  std::mutex mutex_;  // guards the lists, not the objects in them
  std::vector<std::unique_ptr<RmaListener>> listeners_;
  std::vector<std::unique_ptr<RmaGroup>> groups_;
};

}  // namespace railwise::net
