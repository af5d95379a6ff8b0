// Moves bytes: by stores inside the process, by process_vm_writev and _readv between processes. A write
// becomes visible in this order:
// - The last 8 bytes of each aligned block of 128 bytes (by the target's address) come after the other bytes
//   of the block: NCCL's LL128 polls them in the middle of a message.
// - The last bytes of a write come after all others: NCCL and Railwise poll a word at the end of a message.
// - An aligned word of 8 bytes comes whole: NCCL's LL polls pairs of data and flag.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <vector>

#include "softdev/config/limits.h"
#include "softdev/memory/keys.h"

namespace railwise::softdev {

constexpr uint64_t kTailBytes = 8;
constexpr uint64_t kWordBytes = 8;
constexpr uint64_t kBlockBytes = 128;  // the block size that gives NCCL's LL128 its name

struct Pieces {
  Piece list[kMaxSge];
  int count = 0;
};
// Memory of a peer process, with the keys of its regions.
struct RemotePieces : Pieces {
  uint32_t keys[kMaxSge];
};

// Stores the last bytes of a write, ordered after all earlier stores.
[[gnu::always_inline]] inline void storeTail(std::byte* target, const void* source, uint64_t length) {
  const auto address = reinterpret_cast<uint64_t>(target);
  if (length == 8 && address % 8 == 0) {
    uint64_t word;
    std::memcpy(&word, source, 8);
    __atomic_store_n(reinterpret_cast<uint64_t*>(target), word, __ATOMIC_RELEASE);
  } else if (length == 4 && address % 4 == 0) {
    uint32_t word;
    std::memcpy(&word, source, 4);
    __atomic_store_n(reinterpret_cast<uint32_t*>(target), word, __ATOMIC_RELEASE);
  } else {
#if !defined(__SANITIZE_THREAD__)  // gcc's ThreadSanitizer has no fences; it orders every call it sees
    std::atomic_thread_fence(std::memory_order_release);
#endif
    std::memmove(target, source, length);
  }
}

// Writes `source` (`length` bytes in total) to contiguous memory of this process, in the order above.
void writeHere(std::byte* target, const Pieces& source, uint64_t length);
// Copies one piece of any length and alignment, in the order above. The areas must not overlap.
void storeBlocks(std::byte* target, const std::byte* source, uint64_t length);
// Small aligned writes up to this size are stored word by word in ascending order, as PCIe would deliver
// them: a program may poll any word of the target (a ring entry with a flag of its own), not only the last
// one.
inline constexpr uint64_t kWordwiseBytes = 1024;
[[gnu::always_inline]] inline void storeWord(std::byte* target, const std::byte* source) {
  uint64_t word;
#if defined(__SANITIZE_THREAD__)  // a read that only flushes may meet a write of another device
  if (reinterpret_cast<uint64_t>(source) % sizeof word == 0)
    word = __atomic_load_n(reinterpret_cast<const uint64_t*>(source), __ATOMIC_RELAXED);
  else
#endif
    std::memcpy(&word, source, sizeof word);
  __atomic_store_n(reinterpret_cast<uint64_t*>(target), word, __ATOMIC_RELEASE);
}
inline void storeWords(std::byte* target, const std::byte* source, uint64_t length) {
  const std::byte* const end = source + length - kTailBytes;
  for (; end - source >= 4 * ptrdiff_t{kTailBytes}; source += 4 * kTailBytes, target += 4 * kTailBytes) {
    storeWord(target, source);
    storeWord(target + kTailBytes, source + kTailBytes);
    storeWord(target + 2 * kTailBytes, source + 2 * kTailBytes);
    storeWord(target + 3 * kTailBytes, source + 3 * kTailBytes);
  }
  for (; source < end; source += kTailBytes, target += kTailBytes) storeWord(target, source);
}

// Like writeHere() above, for one piece, which is the common case.
[[gnu::always_inline]] inline void writeHere(std::byte* target, const std::byte* source, uint64_t length) {
  const bool words =
      length <= kWordwiseBytes && (length | reinterpret_cast<uint64_t>(target)) % sizeof(uint64_t) == 0;
  if (words && length > kTailBytes) {
    storeWords(target, source, length);
    storeTail(target + length - kTailBytes, source + length - kTailBytes, kTailBytes);
  } else if (length > kTailBytes) {
    storeBlocks(target, source, length);
  } else {
    storeTail(target, source, length);
  }
}

// Copies `source` to the pieces of `target`. Both lists have the same total length. Each piece of `target` is
// filled in the order above.
void copyHere(const Piece* target, int targets, const Pieces& source);

// Calls process_vm_writev or _readv until everything is moved or an error comes. Returns the number of bytes
// moved. *error is 0 or an errno, *calls the number of calls. On return the lists hold what is left, and
// their first pieces may be shortened.
uint64_t transfer(pid_t pid, bool write, iovec*& local, int& locals, iovec*& remote, int& remotes, int* error,
                  uint64_t* calls);

// Does one copy of the kernel store its bytes in ascending order? The kernel copies by `rep movsb`. AMD's
// processors up to Zen 4 make its stores in order. Zen 5 does not (blocks of 128 bytes were seen torn), and
// Intel's need not ("Out-of-Order Stores For String Operations" in the third volume of Intel's manual).
// Processors other than x86 store in any order.
bool kernelKeepsOrder();
// Does the kernel store one piece of the local list before the next? x86 keeps the stores of one copy before
// those of the next copy. Other processors do not. There only the pieces of the remote list keep their order:
// between two of them the kernel unpins the pages of one, an atomic operation with full order.
constexpr bool kernelKeepsLocalPieces() {
#if defined(__x86_64__)
  return true;
#else
  return false;
#endif
}
// How many bytes of a piece at target address `address` may be one copy if a copy is not stored in order. A
// copy goes from the last word of a block up to the last word of the next block, so that each last word comes
// after the rest of its block.
uint64_t bytesOfPiece(uint64_t address, uint64_t length);
// Cuts `local` into such copies. `remote_cut`, if it is not null, receives `remote` in pieces of the same
// lengths.
void cutAtLastWords(const iovec* local, int locals, const iovec* remote, int remotes, std::vector<iovec>* cut,
                    std::vector<iovec>* remote_cut = nullptr);

// Is the whole range mapped in this process?
bool isMapped(const void* address, uint64_t length);

}  // namespace railwise::softdev
