#include "softdev/memory/remap.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "base/log.h"
#include "softdev/fabric/process_locks.h"
#include "softdev/memory/address_space.h"
#include "softdev/memory/file_size_limit.h"
#include "softdev/memory/shared_memory.h"

namespace railwise::softdev {
namespace {

// Constants that some headers do not have yet.
constexpr int kUserModeOnly = 1;                        // UFFD_USER_MODE_ONLY
constexpr uint64_t kWpUnpopulated = uint64_t{1} << 13;  // UFFD_FEATURE_WP_UNPOPULATED
constexpr int kPopulateRead = 22;                       // MADV_POPULATE_READ

struct Range {
  uint64_t begin;
  uint64_t bytes;
  std::byte* memory() const { return reinterpret_cast<std::byte*>(begin); }  // NOLINT: memory of this process
};

// A file that was mapped at a range. It is kept, because there is no other way to a descriptor of it.
struct Moved {
  Range range;
  ino_t inode;
  std::shared_ptr<BackingFile> file;
};
std::vector<Moved>& moved() {
  static auto* list = new std::vector<Moved>;
  return *list;
}

// Opens userfaultfd with write protection, or returns -1.
int openGuard() {
  for (const int mode : {0, kUserModeOnly}) {
    for (const uint64_t features :
         {UFFD_FEATURE_PAGEFAULT_FLAG_WP | kWpUnpopulated, uint64_t{UFFD_FEATURE_PAGEFAULT_FLAG_WP}}) {
      const int fd = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | mode));
      if (fd < 0) break;
      uffdio_api api{};
      api.api = UFFD_API;
      api.features = features;
      if (ioctl(fd, UFFDIO_API, &api) == 0) return fd;
      close(fd);
    }
  }
  return -1;
}

bool movable(const Range& range) {
  int here = 0;
  const auto stack = reinterpret_cast<uint64_t>(&here);
  for (uint64_t at = range.begin; at < range.begin + range.bytes;) {
    Area area;
    if (!describeArea(at, &area)) return false;
    const bool anonymous = area.name.empty() || area.name == "[heap]" || area.name.rfind("[anon", 0) == 0;
    if (area.shared || area.inode != 0 || !anonymous || !area.readable || !area.writable ||
        (stack >= area.begin && stack < area.end))
      return false;
    at = area.end;
  }
  return true;
}

// Whole pages contain more than the region: memory that a sanitizer has poisoned, and memory that other
// threads use. These functions read them word by word, as volatile, so that neither instrumented code nor an
// intercepted memcpy checks the accesses.
#define RAILWISE_UNSANITIZED __attribute__((no_sanitize("address", "thread")))

RAILWISE_UNSANITIZED bool isZeroPage(const std::byte* page, size_t bytes) {
  const auto* words = reinterpret_cast<const volatile uint64_t*>(page);
  for (size_t i = 0; i < bytes / sizeof *words; ++i) {
    if (words[i] != 0) return false;
  }
  return true;
}

RAILWISE_UNSANITIZED void copyPage(std::byte* to, const std::byte* from, size_t bytes) {
  auto* target = reinterpret_cast<volatile uint64_t*>(to);
  const auto* source = reinterpret_cast<const volatile uint64_t*>(from);
  for (size_t i = 0; i < bytes / sizeof *source; ++i) target[i] = source[i];
}

RAILWISE_UNSANITIZED void touch(const std::byte* page) {
  (void)*static_cast<const volatile std::byte*>(page);
}

// From here to the end of the swap: only system calls, and writes to the stack and to `view`. The range may
// hold pages of the heap, and a thread that writes to these waits for us.
bool copyGuarded(int guard, const Range& range, std::byte* view, int file, size_t page) {
  uffdio_register area{};
  area.range = {range.begin, range.bytes};
  area.mode = UFFDIO_REGISTER_MODE_WP;
  if (ioctl(guard, UFFDIO_REGISTER, &area) != 0) return false;
  uffdio_writeprotect protect{};
  protect.range = area.range;
  protect.mode = UFFDIO_WRITEPROTECT_MODE_WP;
  if (ioctl(guard, UFFDIO_WRITEPROTECT, &protect) == 0) {
    for (uint64_t at = 0; at < range.bytes; at += page) {
      const std::byte* from = range.memory() + at;
      if (!isZeroPage(from, page)) copyPage(view + at, from, page);
    }
    if (mmap(range.memory(), range.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) !=
        MAP_FAILED)
      return true;
  }
  (void)ioctl(guard, UFFDIO_UNREGISTER, &area.range);
  return false;
}

bool swapPages(const Range& range, int file, size_t page) {
  const int guard = openGuard();
  if (guard < 0) {
    static std::atomic<bool> told{false};
    if (!told.exchange(true))
      RAILWISE_WARN(
          "software device: mover=remap needs userfaultfd with write protection, which this kernel or "
          "container does not give us (%s): private memory is copied to instead",
          std::strerror(errno));
    return false;
  }
  void* view = mmap(nullptr, range.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  bool done = false;
  if (view != MAP_FAILED) {
    // Not every kernel can protect a page that does not exist. A read makes it the zero page.
    if (madvise(range.memory(), range.bytes, kPopulateRead) != 0) {
      for (uint64_t at = 0; at < range.bytes; at += page) touch(range.memory() + at);
    }
    done = copyGuarded(guard, range, static_cast<std::byte*>(view), file, page);
  }
  close(guard);  // wakes the threads that wait to write
  if (view != MAP_FAILED) munmap(view, range.bytes);
  if (done) (void)madvise(range.memory(), range.bytes, MADV_DONTFORK);
  return done;
}

// Forgets the ranges that the program has unmapped.
void sweep() {
  std::erase_if(moved(), [](const Moved& entry) {
    Area area;
    for (uint64_t at = entry.range.begin; at < entry.range.begin + entry.range.bytes; at = area.end) {
      if (findArea(at, &area) && area.inode == entry.inode) return false;
      if (area.end <= at) return true;
    }
    return true;
  });
}

}  // namespace

bool remapPrivate(uint64_t address, uint64_t length) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t begin = address / page * page;
  const Range range{begin, (address + length - begin + page - 1) / page * page};
  std::lock_guard lock(processLock(ProcessLock::kRemap));
  sweep();
  if (range.bytes > fileSizeLimit() || !movable(range)) return false;
  const int fd = memfd_create("railwise-moved", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  struct stat file = {};
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(range.bytes)) != 0 || fstat(fd, &file) != 0 ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    if (fd >= 0) close(fd);
    return false;
  }
  moved().reserve(moved().size() + 1);
  auto backing = std::make_shared<BackingFile>(fd, fileIdentity(file.st_dev, file.st_ino), true);
  if (!swapPages(range, fd, page)) return false;
  rememberBacking(backing);
  moved().push_back({range, file.st_ino, std::move(backing)});
  return true;
}

}  // namespace railwise::softdev
