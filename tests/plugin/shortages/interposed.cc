#include "plugin/shortages/interposed.h"

#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <link.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <span>

extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* block, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* block);
}

namespace railwise::test {
namespace {

// A library's code in memory. Empty until arm().
struct Code {
  const char* name;
  const char* file;  // a part of its name
  std::atomic<uintptr_t> begin{0}, end{0}, base{0};

  bool has(const void* caller) const {
    const auto address = reinterpret_cast<uintptr_t>(caller);
    return address >= begin.load(std::memory_order_relaxed) && address < end.load(std::memory_order_relaxed);
  }
};
Code g_code[] = {{"plugin", "libnccl-net-railwise"}, {"device", "librailwise-device"}};
std::array<std::atomic<uint64_t>, 3> g_calls;
std::atomic<int> g_kind{0};
std::atomic<uint64_t> g_fails{0};
std::atomic<bool> g_lasting{false};
std::atomic<bool> g_armed{false};
std::atomic<const char*> g_refused{nullptr};
std::array<void*, 24> g_stack;  // at the refusal
std::atomic<int> g_stack_depth{0};

bool ofPlugin(const void* caller) { return g_code[0].has(caller) || g_code[1].has(caller); }

// Is this call to fail?
bool refuse(Shortage kind, const char* function, const void* caller) {
  if (!g_armed.load(std::memory_order_relaxed) || !ofPlugin(caller)) return false;
  const uint64_t call = g_calls[static_cast<std::size_t>(kind)].fetch_add(1) + 1;
  const uint64_t fails = g_fails.load();
  if (static_cast<int>(kind) != g_kind.load() || fails == 0 || call < fails) return false;
  if (call > fails && !g_lasting.load()) return false;
  if (call == fails) {
    g_stack_depth.store(backtrace(g_stack.data(), static_cast<int>(g_stack.size())));
    g_refused.store(function);
  }
  return true;
}

// The plugin's blocks: open addressing, no allocation of its own.
struct Block {
  void* address;  // null: never used; kRemoved: free again
  std::array<void*, 4> from;
};
constexpr std::size_t kSlots = std::size_t{1} << 17;
Block g_blocks[kSlots];
std::size_t g_held = 0;
std::atomic_flag g_blocks_lock = ATOMIC_FLAG_INIT;
void* const kRemoved = &g_held;

struct BlocksGuard {
  BlocksGuard() {
    while (g_blocks_lock.test_and_set(std::memory_order_acquire)) sched_yield();
  }
  ~BlocksGuard() { g_blocks_lock.clear(std::memory_order_release); }
  BlocksGuard(const BlocksGuard&) = delete;
  BlocksGuard& operator=(const BlocksGuard&) = delete;
};

std::size_t slotOf(const void* address) {
  return (reinterpret_cast<uintptr_t>(address) >> 4) * 0x9e3779b1 % kSlots;
}

void* keep(void* address, const void* caller) {
  if (address == nullptr || !g_armed.load(std::memory_order_relaxed) || !ofPlugin(caller)) return address;
  std::array<void*, 7> stack{};
  (void)backtrace(stack.data(), static_cast<int>(stack.size()));
  const BlocksGuard guard;
  std::size_t slot = slotOf(address);
  while (g_blocks[slot].address != nullptr && g_blocks[slot].address != kRemoved) slot = (slot + 1) % kSlots;
  g_blocks[slot].address = address;
  std::copy_n(stack.begin() + 2, 4, g_blocks[slot].from.begin());
  ++g_held;
  return address;
}

void forget(const void* address) {
  if (address == nullptr || !g_armed.load(std::memory_order_relaxed)) return;
  const BlocksGuard guard;
  for (std::size_t slot = slotOf(address); g_blocks[slot].address != nullptr; slot = (slot + 1) % kSlots) {
    if (g_blocks[slot].address != address) continue;
    g_blocks[slot].address = kRemoved;
    --g_held;
    return;
  }
}

template <typename F>
F next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

}  // namespace

uint64_t callsOf(Shortage kind) { return g_calls[static_cast<std::size_t>(kind)].load(); }

void arm(Shortage kind, uint64_t fails, bool lasting) {
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void*) {
        for (Code& code : g_code) {
          if (std::strstr(info->dlpi_name, code.file) == nullptr) continue;
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            const auto& header = info->dlpi_phdr[i];
            if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
            code.base.store(info->dlpi_addr);
            code.end.store(info->dlpi_addr + header.p_vaddr + header.p_memsz);
            code.begin.store(info->dlpi_addr + header.p_vaddr);
          }
        }
        return 0;
      },
      nullptr);
  (void)backtrace(g_stack.data(), 1);  // the first call allocates
  g_kind.store(static_cast<int>(kind));
  g_fails.store(fails);
  g_lasting.store(lasting);
  g_armed.store(std::all_of(std::begin(g_code), std::end(g_code),
                            [](const Code& code) { return code.begin.load() != 0; }));
}

void disarm() { g_fails.store(0); }

// "plugin+0x1234" for addr2line. "": in neither library.
static std::string placeOf(const void* address) {
  for (const Code& code : g_code) {
    if (!code.has(address)) continue;
    char place[32];
    std::snprintf(place, sizeof place, "%s+0x%lx", code.name,
                  static_cast<unsigned long>(reinterpret_cast<uintptr_t>(address) - code.base.load()));
    return place;
  }
  return "";
}

static std::string framesOfPlugin(std::span<void* const> stack) {
  std::string text;
  for (const void* const frame : stack) {
    if (const std::string place = placeOf(frame); !place.empty()) text += " " + place;
  }
  return text;
}

std::string refused() {
  const char* const function = g_refused.load();
  if (function == nullptr) return "";
  const auto depth = static_cast<std::size_t>(g_stack_depth.load());
  return std::string(function) + " at" + framesOfPlugin(std::span(g_stack).first(depth));
}

std::string where() {
  std::array<void*, 48> stack;
  const int depth = backtrace(stack.data(), static_cast<int>(stack.size()));
  return framesOfPlugin(std::span(stack).first(static_cast<std::size_t>(depth)));
}

std::size_t blocksHeld() {
  const BlocksGuard guard;
  return g_held;
}

std::string whereHeld() {
  std::array<std::array<void*, 4>, 4096> from{};
  std::size_t count = 0;
  {
    const BlocksGuard guard;
    for (const Block& block : g_blocks) {
      if (block.address != nullptr && block.address != kRemoved && count < from.size())
        from[count++] = block.from;
    }
  }
  std::map<std::string, int> places;
  for (std::size_t i = 0; i < count; ++i) ++places[framesOfPlugin(from[i])];
  std::string text;
  for (const auto& [place, blocks] : places) text += " " + std::to_string(blocks) + "x" + place + ";";
  return text;
}

}  // namespace railwise::test

using railwise::test::Shortage;
#define CALLER __builtin_return_address(0)
#define REFUSE(kind, name, error, answer)                     \
  if (railwise::test::refuse(Shortage::kind, name, CALLER)) { \
    errno = error;                                            \
    return answer;                                            \
  }

#pragma GCC visibility push(default)
extern "C" {

void* malloc(size_t bytes) {
  REFUSE(kMemory, "malloc", ENOMEM, nullptr)
  return railwise::test::keep(__libc_malloc(bytes), CALLER);
}
void* calloc(size_t count, size_t bytes) {
  REFUSE(kMemory, "calloc", ENOMEM, nullptr)
  return railwise::test::keep(__libc_calloc(count, bytes), CALLER);
}
void* realloc(void* block, size_t bytes) {
  REFUSE(kMemory, "realloc", ENOMEM, nullptr)
  railwise::test::forget(block);
  return railwise::test::keep(__libc_realloc(block, bytes), CALLER);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  REFUSE(kMemory, "aligned_alloc", ENOMEM, nullptr)
  return railwise::test::keep(__libc_memalign(alignment, bytes), CALLER);
}
void* memalign(size_t alignment, size_t bytes) { return __libc_memalign(alignment, bytes); }
int posix_memalign(void** block, size_t alignment, size_t bytes) {
  *block = __libc_memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}
void free(void* block) {
  railwise::test::forget(block);
  __libc_free(block);
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  REFUSE(kDescriptors, "open", EMFILE, -1)
  return openat(AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  REFUSE(kDescriptors, "openat", EMFILE, -1)
  static const auto real = railwise::test::next<int (*)(int, const char*, int, ...)>("openat");
  return real(folder, path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  REFUSE(kDescriptors, "fopen", EMFILE, nullptr)
  static const auto real = railwise::test::next<FILE* (*)(const char*, const char*)>("fopen");
  return real(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  REFUSE(kDescriptors, "fopen64", EMFILE, nullptr)
  static const auto real = railwise::test::next<FILE* (*)(const char*, const char*)>("fopen64");
  return real(path, mode);
}
DIR* opendir(const char* path) {
  REFUSE(kDescriptors, "opendir", EMFILE, nullptr)
  static const auto real = railwise::test::next<DIR* (*)(const char*)>("opendir");
  return real(path);
}
int socket(int domain, int type, int protocol) {
  REFUSE(kDescriptors, "socket", EMFILE, -1)
  static const auto real = railwise::test::next<int (*)(int, int, int)>("socket");
  return real(domain, type, protocol);
}
int accept4(int listener, sockaddr* address, socklen_t* length, int flags) {
  REFUSE(kDescriptors, "accept4", EMFILE, -1)
  static const auto real = railwise::test::next<int (*)(int, sockaddr*, socklen_t*, int)>("accept4");
  return real(listener, address, length, flags);
}
int epoll_create1(int flags) noexcept {
  REFUSE(kDescriptors, "epoll_create1", EMFILE, -1)
  static const auto real = railwise::test::next<int (*)(int)>("epoll_create1");
  return real(flags);
}
int eventfd(unsigned initial, int flags) noexcept {
  REFUSE(kDescriptors, "eventfd", EMFILE, -1)
  static const auto real = railwise::test::next<int (*)(unsigned, int)>("eventfd");
  return real(initial, flags);
}
int memfd_create(const char* name, unsigned flags) noexcept {
  REFUSE(kDescriptors, "memfd_create", EMFILE, -1)
  static const auto real = railwise::test::next<int (*)(const char*, unsigned)>("memfd_create");
  return real(name, flags);
}
int pipe2(int ends[2], int flags) noexcept {
  REFUSE(kDescriptors, "pipe2", EMFILE, -1)
  static const auto real = railwise::test::next<int (*)(int*, int)>("pipe2");
  return real(ends, flags);
}

void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  REFUSE(kKernel, "mmap", ENOMEM, MAP_FAILED)
  static const auto real = railwise::test::next<void* (*)(void*, size_t, int, int, int, off_t)>("mmap");
  return real(address, bytes, protection, flags, fd, offset);
}
int ftruncate(int fd, off_t bytes) noexcept {
  REFUSE(kKernel, "ftruncate", ENOSPC, -1)
  static const auto real = railwise::test::next<int (*)(int, off_t)>("ftruncate");
  return real(fd, bytes);
}
int posix_fallocate(int fd, off_t offset, off_t bytes) {
  if (railwise::test::refuse(Shortage::kKernel, "posix_fallocate", CALLER)) return ENOSPC;
  static const auto real = railwise::test::next<int (*)(int, off_t, off_t)>("posix_fallocate");
  return real(fd, offset, bytes);
}
int mkdir(const char* path, mode_t mode) noexcept {
  REFUSE(kKernel, "mkdir", ENOSPC, -1)
  static const auto real = railwise::test::next<int (*)(const char*, mode_t)>("mkdir");
  return real(path, mode);
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* argument) noexcept {
  if (railwise::test::refuse(Shortage::kKernel, "pthread_create", CALLER)) return EAGAIN;
  static const auto real =
      railwise::test::next<int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>(
          "pthread_create");
  return real(thread, attributes, body, argument);
}
int bind(int fd, const sockaddr* address, socklen_t length) noexcept {
  REFUSE(kKernel, "bind", EADDRINUSE, -1)
  static const auto real = railwise::test::next<int (*)(int, const sockaddr*, socklen_t)>("bind");
  return real(fd, address, length);
}
int listen(int fd, int backlog) noexcept {
  REFUSE(kKernel, "listen", EADDRINUSE, -1)
  static const auto real = railwise::test::next<int (*)(int, int)>("listen");
  return real(fd, backlog);
}
int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
  if (operation == EPOLL_CTL_ADD) {
    REFUSE(kKernel, "epoll_ctl", ENOSPC, -1)
  }
  static const auto real = railwise::test::next<int (*)(int, int, int, epoll_event*)>("epoll_ctl");
  return real(epoll, operation, fd, event);
}
int getifaddrs(ifaddrs** list) noexcept {
  REFUSE(kKernel, "getifaddrs", ENOBUFS, -1)
  static const auto real = railwise::test::next<int (*)(ifaddrs**)>("getifaddrs");
  return real(list);
}
int getsockname(int fd, sockaddr* address, socklen_t* length) noexcept {
  REFUSE(kKernel, "getsockname", ENOBUFS, -1)
  static const auto real = railwise::test::next<int (*)(int, sockaddr*, socklen_t*)>("getsockname");
  return real(fd, address, length);
}
int setsockopt(int fd, int level, int option, const void* value, socklen_t length) noexcept {
  REFUSE(kKernel, "setsockopt", ENOBUFS, -1)
  static const auto real = railwise::test::next<int (*)(int, int, int, const void*, socklen_t)>("setsockopt");
  return real(fd, level, option, value, length);
}

}  // extern "C"
#pragma GCC visibility pop
