#include "base/process_id.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>

namespace railwise {
namespace {

// qemu-user and other layers accept advice that they do not know, and do nothing then.
constexpr int kNoAdvice = -1;

std::atomic<pid_t>* makePage() {
  const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  if (madvise(page, bytes, kNoAdvice) != 0 && madvise(page, bytes, MADV_WIPEONFORK) == 0)
    return new (page) std::atomic<pid_t>(0);
  munmap(page, bytes);
  return nullptr;
}

}  // namespace

pid_t askProcessId() {
  static std::atomic<pid_t>* const page = makePage();
  const pid_t id = getpid();
  if (page == nullptr) return id;
  page->store(id, std::memory_order_relaxed);
  g_process_id_page.store(page, std::memory_order_release);
  return id;
}

}  // namespace railwise
