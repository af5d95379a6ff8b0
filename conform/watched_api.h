// A table whose caller says in which call of the plugin it is, for the process that watches the trial.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "cli/plugin/net_api.h"

namespace railwise::conform {

// Lies in memory that a trial shares with its parent process. The name is a literal: the trial is a fork of
// its parent, and has it at the same address.
struct CallNow {
  std::atomic<const char*> name = nullptr;  // null: the plugin has not been called, or has returned
  std::atomic<uint64_t> since_ns = 0;       // of nowNs()
};

// Null where nobody watches: in the peer of a trial, too.
extern CallNow* g_call_now;

std::unique_ptr<cli::NetApi> watched(std::unique_ptr<cli::NetApi> api);

}  // namespace railwise::conform
