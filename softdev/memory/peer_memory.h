// The memory of another process, as a queue pair of this process reaches it. The ways to reach it, the
// preferred one first: a mapping in this process (shared_memory.h); /proc/PID/mem, if the configuration says
// so; process_vm_writev and _readv; and if the kernel refuses those, the agent in that process (agent.h). The
// queue pair's sq_lock guards it.
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
  // Sets the peer to the process with `token`. False, with one WARN: there is no way to its memory, or not
  // yet. Then the caller requests its agent (meetPeer() of agent.h), as soon as it holds no shared lock.
  bool connect(Fabric& fabric, uint32_t token, MoverChoice mover);

  // The address in this process of the peer's `address` in region `key`. Null: use transfer(). See
  // PeerRegions::find().
  std::byte* map(uint32_t key, const std::byte* address, bool writing) {
    return mapping_ ? regions_.find(*fabric_, token_, key, address, writing) : nullptr;
  }

  // Unmaps and closes everything of the peer, which is gone or broken.
  void forget() {
    regions_.clear();
    file_ = nullptr;
  }

  // Copies from `local` to the peer's `remote` (or back), in the order of the lists, until everything is
  // moved or an error comes. Returns the number of bytes moved. *error is 0 or an errno, *calls the number of
  // system calls. Changes the lists.
  uint64_t transfer(bool write, iovec* local, int locals, iovec* remote, int remotes, int* error,
                    uint64_t* calls);

 private:
  Fabric* fabric_ = nullptr;
  uint32_t token_ = 0;
  pid_t pid_ = -1;
  bool mapping_ = false;
  bool by_agent_ = false;
  PeerRegions regions_;
  std::shared_ptr<ProcMem> file_;  // used with mover=mem
  std::vector<iovec> cut_;         // pieces of the current transfer
  std::vector<iovec> remote_cut_;  // the same pieces in the peer's memory; not used on x86
};

}  // namespace railwise::softdev
