// Facts of the running machine that are in none of its files, as files below /railwise (system.h lists them).
// Main thread only: it forks.
#pragma once

#include <chrono>

#include "base/settings/config.h"
#include "sysfs/file_tree.h"

namespace railwise::doctor {

struct GatherOptions {
  // How long counters are watched; 0: not at all.
  std::chrono::milliseconds watch = std::chrono::milliseconds(1000);
  // The environment, as environ(7); variables that concern no job of NCCL's are left out.
  const char* const* environment = nullptr;
};

// `machine`: this machine's files. Takes `watch`, and up to two seconds more where a driver does not answer.
sysfs::MemoryTree gatherFacts(const sysfs::FileTree& machine, const GatherOptions& options,
                              const Config& config);

}  // namespace railwise::doctor
