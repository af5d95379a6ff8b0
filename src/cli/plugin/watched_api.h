// A table whose caller says in which call of the plugin it is, for the parent process, which watches a trial
// of the plugin.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "cli/plugin/net_api.h"

namespace railwise::cli {

// Lies in memory that a trial shares with its parent process. The name is a literal: the trial is a fork of
// its parent, and has it at the same address.
struct CallNow {
  std::atomic<const char*> name = nullptr;  // null: the plugin has not been called, or has returned
  std::atomic<uint64_t> since_ns = 0;       // of nowNs()
};

// One for the process and those that it forks. Null: there is no memory.
CallNow* sharedCall();

// The place where this process notes its calls. In a trial it is sharedCall(). Null: nobody watches, as in
// the peer of a trial.
extern CallNow* g_call_now;

std::unique_ptr<NetApi> watched(std::unique_ptr<NetApi> api);

}  // namespace railwise::cli
