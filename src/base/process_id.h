// The number of this process, without a system call: what an inherited object compares its owner with, many
// times for each connection. Thread-safe.
#pragma once

#include <sys/types.h>

#include <atomic>

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

}  // namespace railwise
