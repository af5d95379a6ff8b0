#include "base/process_id.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
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

std::string beginningOf(const std::string& path) {
  char bytes[1024];
  std::size_t got = 0;
  if (FILE* const file = std::fopen(path.c_str(), "re"); file != nullptr) {
    got = std::fread(bytes, 1, sizeof bytes, file);
    std::fclose(file);
  }
  return {bytes, got};
}

// qemu-user answers a read of the process's own /proc/PID/stat itself, with another start than the other
// processes see, but not one of the first thread's file. That file is missing where /proc is of another PID
// namespace.
ProcessStat processStat(const std::string& pid) {
  const std::string own = std::to_string(getpid());
  std::string stat = beginningOf("/proc/" + pid + "/task/" + (pid == kThisProcess ? own : pid) + "/stat");
  if (stat.empty()) stat = beginningOf("/proc/" + pid + "/stat");
  std::size_t at = stat.rfind(')');  // the program's name may have blanks
  if (at == std::string::npos || at + 2 >= stat.size()) return {};
  const char state = stat[at + 2];
  const auto parent = static_cast<pid_t>(std::strtol(stat.c_str() + at + 3, nullptr, 10));
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  if (at == std::string::npos) return {};
  return {.state = state, .parent = parent, .start = std::strtoull(stat.c_str() + at, nullptr, 10)};
}

std::string bootId() {
  const std::string id = beginningOf("/proc/sys/kernel/random/boot_id");
  return id.substr(0, id.find('\n'));
}

}  // namespace railwise
