#include "softdev/engine/atomics.h"

namespace railwise::softdev {
namespace {

SharedLock& lockOfWord(Segment& segment, const std::byte* address) {
  static_assert(kWordLocks == kPageBytes / sizeof(uint64_t));
  return segment.words[reinterpret_cast<uint64_t>(address) % kPageBytes / sizeof(uint64_t)];
}

uint64_t updateHere(const Work& work, std::byte* address) {
  auto* word = reinterpret_cast<uint64_t*>(address);
  if (work.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
    return __atomic_fetch_add(word, work.compare_add, __ATOMIC_SEQ_CST);
  uint64_t seen = work.compare_add;
  __atomic_compare_exchange_n(word, &seen, work.swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return seen;
}

int moveWord(PeerMemory& peer, bool write, uint64_t* word, std::byte* address, uint64_t* calls) {
  iovec local{word, sizeof *word};
  iovec remote{address, sizeof *word};
  int error = 0;
  peer.transfer(write, &local, 1, &remote, 1, &error, calls);
  return error;
}

}  // namespace

int updateWord(Fabric& fabric, const Work& work, std::byte* address, PeerMemory* peer, uint64_t* before,
               uint64_t* calls) {
  // If an owner of the lock dies here, it has written the word or not. Both results are correct, so there is
  // nothing to repair.
  const SharedLockGuard guard(lockOfWord(*fabric.segment, address), fabric.self);
  if (peer == nullptr) {
    *before = updateHere(work, address);
    return 0;
  }
  if (const int error = moveWord(*peer, false, before, address, calls); error != 0) return error;
  const bool adds = work.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  if (!adds && *before != work.compare_add) return 0;
  uint64_t after = adds ? *before + work.compare_add : work.swap;
  return moveWord(*peer, true, &after, address, calls);
}

}  // namespace railwise::softdev
