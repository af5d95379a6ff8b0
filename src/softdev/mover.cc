#include "softdev/mover.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace railwise::softdev {
namespace {

// Walks a list of pieces by bytes.
class Cursor {
 public:
  Cursor(const Piece* pieces, int count) : piece_(pieces), end_(pieces + count) {}

  // Up to `wanted` contiguous bytes from here; *got of them.
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

// Drops the first `bytes` of a list.
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

void writeHere(std::byte* target, const Pieces& source, uint64_t length) {
  Cursor cursor(source.list, source.count);
  const uint64_t tail = std::min(length, kTailBytes);
  gather(cursor, target, length - tail);
  std::byte last[kTailBytes];
  gather(cursor, last, tail);
  storeTail(target + (length - tail), last, tail);
}

void copyHere(const Piece* target, int targets, const Pieces& source) {
  if (targets == 1) return writeHere(target->address, source, target->length);  // somebody may poll its end
  Cursor cursor(source.list, source.count);
  for (int i = 0; i < targets; ++i) gather(cursor, target[i].address, target[i].length);
}

uint64_t transfer(pid_t pid, bool write, iovec*& local, int& locals, iovec*& remote, int& remotes, int* error,
                  uint64_t* calls) {
  uint64_t moved = 0;
  *error = 0;
  advance(&remote, &remotes, 0);
  while (remotes > 0) {
    const auto local_count = static_cast<unsigned long>(locals);
    const auto remote_count = static_cast<unsigned long>(remotes);
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
