// The number of this process, without a system call: what an inherited object compares its owner with, many
// times for each connection. Also what the kernel says of a process. Thread-safe.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>

namespace railwise {

// On a page that the kernel fills with zeros in a forked child. Null: there is no such page yet, or the
// kernel has none.
inline std::atomic<std::atomic<pid_t>*> g_process_id_page = nullptr;

// Makes the page if there is none, and writes the number to it.
[[gnu::cold]] pid_t askProcessId();

// As getpid(), also in a forked child. A child of vfork() gets its parent's number: both have one memory.
inline pid_t processId() {
  if (const std::atomic<pid_t>* page = g_process_id_page.load(std::memory_order_acquire)) [[likely]] {
    if (const pid_t known = page->load(std::memory_order_relaxed)) [[likely]]
      return known;
  }
  return askProcessId();
}

// Of a stat file below /proc. The start is in clock ticks after boot, and tells a process from an earlier one
// with its number.
struct ProcessStat {
  char state = 0;      // R, S, D, T, Z ...
  pid_t parent = 0;    // 0: none in this PID namespace
  uint64_t start = 0;  // 0: there is no such process
};
inline constexpr const char* kThisProcess = "self";
ProcessStat processStat(const std::string& pid);
// The first bytes of a file of the kernel; "" without one.
std::string beginningOf(const std::string& path);
// The boot of this machine.
std::string bootId();

}  // namespace railwise
