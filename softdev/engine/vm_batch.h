// Writes and sends to another process that one process_vm_writev will carry. There is one batch per QP whose
// peer is another process. The QP's sq_lock and the peer's responder lock guard it.
#pragma once

#include "softdev/memory/mover.h"
#include "softdev/memory/peer_memory.h"
#include "softdev/queues/objects.h"

namespace railwise::softdev {

class VmBatch {
 public:
  static constexpr int kMaxWorks = 32;
  static constexpr int kMaxPieces = 128;
  static_assert(kMaxPieces >= 2 * (static_cast<int>(kMaxSge) + 1));

  bool empty() const { return works_ == 0; }
  // Receives that the batched works will consume.
  uint64_t receives() const { return receives_; }
  bool fits(int locals, int remotes) const {
    return works_ < kMaxWorks && locals_ + locals + 1 <= kMaxPieces && remotes_ + remotes + 1 <= kMaxPieces;
  }

  // `tail_last`: the last 8 bytes become a piece of their own, because the kernel copies piece by piece. One
  // more local piece costs nothing. For one more remote piece the kernel looks the page up again (0.36 us).
  // Where local pieces are not stored in order, PeerMemory::transfer() makes remote pieces of them.
  void add(const Work& work, const Pieces& source, const Pieces& target, bool consumes_receive,
           bool tail_last);

  // Moves everything. Returns the number of work requests that arrived whole. *error receives the errno of
  // the next one.
  int move(PeerMemory& peer, int* error, uint64_t* calls);
  const Work& work(int i) const { return list_[i]; }
  int works() const { return works_; }
  void clear();

 private:
  static void splitTail(iovec* list, int* count);

  int works_ = 0;
  int locals_ = 0;
  int remotes_ = 0;
  uint64_t receives_ = 0;
  Work list_[kMaxWorks];
  iovec local_[kMaxPieces];
  iovec remote_[kMaxPieces];
};

inline void VmBatch::add(const Work& work, const Pieces& source, const Pieces& target, bool consumes_receive,
                         bool tail_last) {
  list_[works_++] = work;
  receives_ += consumes_receive ? 1 : 0;
  for (int i = 0; i < source.count; ++i) local_[locals_++] = {source.list[i].address, source.list[i].length};
  for (int i = 0; i < target.count; ++i)
    remote_[remotes_++] = {target.list[i].address, target.list[i].length};
  if (!tail_last || work.length <= kTailBytes) return;
  const uint64_t last = source.list[source.count - 1].length;
  if (last > kTailBytes) {
    splitTail(local_, &locals_);
  } else if (last < kTailBytes) {  // the last 8 bytes begin in an earlier local piece
    splitTail(remote_, &remotes_);
  }
}

// Makes the last 8 bytes of a list a piece of their own.
inline void VmBatch::splitTail(iovec* list, int* count) {
  iovec& body = list[*count - 1];
  body.iov_len -= kTailBytes;
  list[(*count)++] = {static_cast<std::byte*>(body.iov_base) + body.iov_len, kTailBytes};
}

inline int VmBatch::move(PeerMemory& peer, int* error, uint64_t* calls) {
  uint64_t moved = peer.transfer(true, local_, locals_, remote_, remotes_, error, calls);
  if (*error == 0) return works_;
  int whole = 0;
  while (whole < works_ && list_[whole].length <= moved) moved -= list_[whole++].length;
  return whole;
}

inline void VmBatch::clear() {
  works_ = locals_ = remotes_ = 0;
  receives_ = 0;
}

}  // namespace railwise::softdev
