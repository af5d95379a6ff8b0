// Moves bytes: by memmove inside the process, by process_vm_writev and _readv between processes. A write is
// visible in this order: everything but its last 8 bytes, then those (NCCL and Railwise poll a word at the
// end of a message).
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "softdev/responder.h"

namespace railwise::softdev {

constexpr uint64_t kTailBytes = 8;

struct Pieces {
  Piece list[kMaxSge];
  int count = 0;
};
// Memory of a peer process, with the keys of its regions.
struct RemotePieces : Pieces {
  uint32_t keys[kMaxSge];
};

// Stores the last bytes of a write, after everything stored before.
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

// `source` (of `length` bytes together) to contiguous memory of this process, the tail last.
void writeHere(std::byte* target, const Pieces& source, uint64_t length);
// Small aligned writes are stored word by word in their order, as PCIe would deliver them: someone may poll
// any word of the target (a ring entry with a flag of its own), not only the last.
inline constexpr uint64_t kWordwiseBytes = 1024;
[[gnu::always_inline]] inline void storeWord(std::byte* target, const std::byte* source) {
  uint64_t word;
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

// One piece, the common case.
[[gnu::always_inline]] inline void writeHere(std::byte* target, const std::byte* source, uint64_t length) {
  const bool words =
      length <= kWordwiseBytes && (length | reinterpret_cast<uint64_t>(target)) % sizeof(uint64_t) == 0;
  if (words && length > kTailBytes) {
    storeWords(target, source, length);
    storeTail(target + length - kTailBytes, source + length - kTailBytes, kTailBytes);
  } else if (length > kTailBytes) {
    const uint64_t body = length - kTailBytes;
    std::memmove(target, source, body);
    storeTail(target + body, source + body, kTailBytes);
  } else {
    storeTail(target, source, length);
  }
}

// Both lists have the same bytes; the last piece of `target` ends with the message's tail.
void copyHere(const Piece* target, int targets, const Pieces& source);

// process_vm_writev or _readv until all is moved or an error: bytes moved, *error 0 or errno, *calls made. The
// lists are what is left then; their first pieces may have been cut.
uint64_t transfer(pid_t pid, bool write, iovec*& local, int& locals, iovec*& remote, int& remotes, int* error,
                  uint64_t* calls);

// Whether the whole range is mapped in this process.
bool isMapped(const void* address, uint64_t length);

}  // namespace railwise::softdev
