// What every thread of the stress is about, for the watchdog and for the report of a failure.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace railwise::test {

struct Watched {
  std::atomic<uint64_t> moves = 0;  // grows while the thread gets on
  std::atomic<const char*> doing = "nothing yet";

  void moved() { moves.fetch_add(1, std::memory_order_relaxed); }
  void does(const char* what) {
    doing.store(what, std::memory_order_relaxed);
    moved();
  }
};

struct Totals {
  std::atomic<uint64_t> rounds = 0, aborts = 0, aborts_found_out = 0, connections = 0, forgotten = 0,
                        messages = 0, bytes = 0, registrations = 0, flushes = 0, forks = 0, reloads = 0,
                        failed_by_disturbance = 0;
};

// Who the calling thread is, for fail().
void nameThread(const std::string& name);
// Prints what is wrong with the name of the thread and the plugin's latest warnings, and ends the process.
[[noreturn]] void fail(const std::string& what);

}  // namespace railwise::test
