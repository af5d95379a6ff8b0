// The memory of another process, as a queue pair of this one reaches it. In this order: mapped here
// (shared_memory.h); written through /proc/PID/mem where the configuration says so; process_vm_writev and
// _readv; where those are refused, by the agent in that process (agent.h). Guarded by the queue pair's
// sq_lock.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <vector>

#include "softdev/config/config.h"
#include "softdev/memory/shared_memory.h"

namespace railwise::softdev {

class ProcMem;

class PeerMemory {
 public:
  // From now on the process with `token`. False when there is no way to its memory, or not yet: one WARN. The
  // caller then asks for its agent (meetPeer() of agent.h), as soon as it holds no shared lock.
  bool connect(Fabric& fabric, uint32_t token, MoverChoice mover);

  // The place in this process of the peer's `address` in region `key`; null: use transfer(). See
  // PeerRegions::find().
  std::byte* map(uint32_t key, const std::byte* address, bool writing) {
    return mapping_ ? regions_.find(*fabric_, token_, key, address, writing) : nullptr;
  }

  // Unmaps and closes what belongs to the peer, which is gone or broken.
  void forget() {
    regions_.clear();
    file_ = nullptr;
  }

  // Copies from `local` to the peer's `remote` (or back), in the order of the lists, until all is moved or an
  // error: bytes moved, *error 0 or errno, *calls the system calls made. Changes the lists.
  uint64_t transfer(bool write, iovec* local, int locals, iovec* remote, int remotes, int* error,
                    uint64_t* calls);

 private:
  Fabric* fabric_ = nullptr;
  uint32_t token_ = 0;
  pid_t pid_ = -1;
  bool mapping_ = false;
  bool by_agent_ = false;
  PeerRegions regions_;
  std::shared_ptr<ProcMem> file_;  // with mover=mem
  std::vector<iovec> cut_;         // of the transfer that runs
};

}  // namespace railwise::softdev
