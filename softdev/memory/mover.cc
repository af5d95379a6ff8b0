#include "softdev/memory/mover.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "softdev/memory/once_asked.h"

namespace railwise::softdev {
namespace {

// Walks through a list of pieces.
class Cursor {
 public:
  Cursor(const Piece* pieces, int count) : piece_(pieces), end_(pieces + count) {}

  // Returns up to `wanted` contiguous bytes from the current position. *got receives their number.
  std::byte* take(uint64_t wanted, uint64_t* got) {
    while (piece_ != end_ && offset_ == piece_->length) next();
    if (piece_ == end_) {
      *got = 0;
      return nullptr;
    }
    std::byte* address = piece_->address + offset_;
    *got = std::min(wanted, piece_->length - offset_);
    offset_ += *got;
    return address;
  }

 private:
  void next() {
    ++piece_;
    offset_ = 0;
  }

  const Piece* piece_;
  const Piece* end_;
  uint64_t offset_ = 0;
};

// Copies `length` bytes from the cursor to contiguous memory.
void gather(Cursor& source, std::byte* target, uint64_t length) {
  while (length > 0) {
    uint64_t got = 0;
    const std::byte* from = source.take(length, &got);
    if (got == 0) return;
    std::memmove(target, from, got);
    target += got;
    length -= got;
  }
}

// Copies `length` bytes from the cursor to contiguous memory, in the order of mover.h.
void place(Cursor& source, std::byte* target, uint64_t length) {
  while (length > 0) {
    uint64_t got = 0;
    const std::byte* from = source.take(length, &got);
    if (got == 0) return;
    // A word that begins in this piece and ends in the next is assembled first.
    const uint64_t over =
        got == length ? 0 : std::min(got, (reinterpret_cast<uint64_t>(target) + got) % kWordBytes);
    storeBlocks(target, from, got - over);
    target += got - over;
    length -= got - over;
    if (over == 0) continue;
    std::byte word[kWordBytes];
    const uint64_t whole = std::min(length, kWordBytes - reinterpret_cast<uint64_t>(target) % kWordBytes);
    std::memcpy(word, from + (got - over), over);
    gather(source, word + over, whole - over);
    storeBlocks(target, word, whole);
    target += whole;
    length -= whole;
  }
}

// Stores less than a word, in ascending order, in the largest aligned parts.
void storePart(std::byte* target, const std::byte* source, uint64_t length) {
  while (length > 0) {
    uint64_t step = sizeof(uint32_t);
    while (step > length || reinterpret_cast<uint64_t>(target) % step != 0) step /= 2;
    if (step == sizeof(uint32_t)) {
      storeTail(target, source, step);
    } else {
      for (uint64_t i = 0; i < step; ++i)
        __atomic_store_n(reinterpret_cast<uint8_t*>(target) + i, static_cast<uint8_t>(source[i]),
                         __ATOMIC_RELEASE);
    }
    target += step;
    source += step;
    length -= step;
  }
}

#if defined(__SANITIZE_THREAD__)  // plain stores would be a race with a thread that polls a word
void storeBlock(std::byte* target, const std::byte* source) {
  for (uint64_t at = 0; at < kBlockBytes; at += kWordBytes) storeWord(target + at, source + at);
}
#else
// Stores 16 bytes to an aligned address: in one store, or in two stores of a word each.
void storePair(std::byte* target, const std::byte* source) {
  using Pair = uint64_t __attribute__((vector_size(16)));
  Pair pair;
  std::memcpy(&pair, source, sizeof pair);
  *reinterpret_cast<volatile Pair*>(target) = pair;
}

// Stores an aligned block. Its last word has release order, so it comes after the others.
void storeBlock(std::byte* target, const std::byte* source) {
  storePair(target, source);  // unrolled, because a loop takes twice the time
  storePair(target + 16, source + 16);
  storePair(target + 32, source + 32);
  storePair(target + 48, source + 48);
  storePair(target + 64, source + 64);
  storePair(target + 80, source + 80);
  storePair(target + 96, source + 96);
  storeWord(target + 112, source + 112);
  storeWord(target + 120, source + 120);
}
#endif

// Removes the first `bytes` bytes of a list.
void advance(iovec** list, int* count, uint64_t bytes) {
  while (*count > 0 && bytes >= (*list)->iov_len) {
    bytes -= (*list)->iov_len;
    ++*list;
    --*count;
  }
  if (*count == 0) return;
  (*list)->iov_base = static_cast<std::byte*>((*list)->iov_base) + bytes;
  (*list)->iov_len -= bytes;
}

}  // namespace

void storeBlocks(std::byte* target, const std::byte* source, uint64_t length) {
  const std::byte* const end = source + length;
  const auto past = [&](uint64_t unit) { return reinterpret_cast<uint64_t>(target) % unit; };
  const auto left = [&] { return static_cast<uint64_t>(end - source); };
  const auto step = [&](uint64_t bytes) {
    target += bytes;
    source += bytes;
  };
  if (past(kWordBytes) != 0) {
    const uint64_t head = std::min(length, kWordBytes - past(kWordBytes));
    storePart(target, source, head);
    step(head);
  }
  for (; past(kBlockBytes) != 0 && left() >= kWordBytes; step(kWordBytes)) storeWord(target, source);
  for (; left() >= kBlockBytes; step(kBlockBytes)) storeBlock(target, source);
  for (; left() >= kWordBytes; step(kWordBytes)) storeWord(target, source);
  storePart(target, source, left());
}

void writeHere(std::byte* target, const Pieces& source, uint64_t length) {
  Cursor cursor(source.list, source.count);
  place(cursor, target, length);
}

void copyHere(const Piece* target, int targets, const Pieces& source) {
  Cursor cursor(source.list, source.count);
  for (int i = 0; i < targets; ++i) place(cursor, target[i].address, target[i].length);
}

uint64_t transfer(pid_t pid, bool write, iovec*& local, int& locals, iovec*& remote, int& remotes, int* error,
                  uint64_t* calls) {
  constexpr int kMaxIovecs = 1024;  // UIO_MAXIOV of the kernel. A call ends where one of the lists ends
  uint64_t moved = 0;
  *error = 0;
  advance(&remote, &remotes, 0);
  while (remotes > 0) {
    const auto local_count = static_cast<unsigned long>(std::min(locals, kMaxIovecs));
    const auto remote_count = static_cast<unsigned long>(std::min(remotes, kMaxIovecs));
    const ssize_t bytes = write ? process_vm_writev(pid, local, local_count, remote, remote_count, 0)
                                : process_vm_readv(pid, local, local_count, remote, remote_count, 0);
    ++*calls;
    if (bytes <= 0) {
      *error = bytes == 0 ? EFAULT : errno;
      return moved;
    }
    moved += static_cast<uint64_t>(bytes);
    advance(&local, &locals, static_cast<uint64_t>(bytes));
    advance(&remote, &remotes, static_cast<uint64_t>(bytes));
  }
  return moved;
}

bool kernelKeepsOrder() {
#if defined(__x86_64__)
  static constinit OnceAsked ordered;
  return ordered([] {
    constexpr unsigned kFirstUnordered = 26;  // Zen 5
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__builtin_cpu_is("amd") == 0 || __get_cpuid(1, &a, &b, &c, &d) == 0) return false;
    const unsigned base = a >> 8 & 0xf;
    const unsigned family = base < 0xf ? base : base + (a >> 20 & 0xff);
    return family < kFirstUnordered;
  });
#else
  return false;
#endif
}

uint64_t bytesOfPiece(uint64_t address, uint64_t length) {
  const uint64_t past = address % kBlockBytes;
  constexpr uint64_t kLastWord = kBlockBytes - kWordBytes;
  return std::min(length, past < kLastWord ? kLastWord - past : kBlockBytes + kLastWord - past);
}

void cutAtLastWords(const iovec* local, int locals, const iovec* remote, int remotes, std::vector<iovec>* cut,
                    std::vector<iovec>* remote_cut) {
  cut->clear();
  if (remote_cut != nullptr) remote_cut->clear();
  const iovec* const end = local + locals;
  uint64_t taken = 0;  // bytes of *local already taken
  for (const iovec* piece = remote; piece != remote + remotes; ++piece) {
    const auto address = reinterpret_cast<uint64_t>(piece->iov_base);
    for (uint64_t at = 0; at < piece->iov_len && local != end;) {
      if (taken == local->iov_len) {
        ++local;
        taken = 0;
        continue;
      }
      const uint64_t bytes =
          std::min(bytesOfPiece(address + at, piece->iov_len - at), local->iov_len - taken);
      cut->push_back({static_cast<std::byte*>(local->iov_base) + taken, bytes});
      if (remote_cut != nullptr)
        remote_cut->push_back({static_cast<std::byte*>(piece->iov_base) + at, bytes});
      taken += bytes;
      at += bytes;
    }
  }
}

bool isMapped(const void* address, uint64_t length) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uint64_t>(address) / page * page;
  const uint64_t bytes = reinterpret_cast<uint64_t>(address) + length - first;
  constexpr uint64_t kPagesAtOnce = 1024;
  unsigned char resident[kPagesAtOnce];
  for (uint64_t done = 0; done < bytes; done += kPagesAtOnce * page) {
    void* at = reinterpret_cast<void*>(first + done);  // NOLINT: page-aligned address of the caller's range
    if (mincore(at, std::min(bytes - done, kPagesAtOnce * page), resident) != 0) return false;
  }
  return true;
}

}  // namespace railwise::softdev
