// Why a connection waits: what both ends together tell. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "observe/stuck/diagnosis.h"
#include "observe/stuck/job.h"

namespace railwise::observe {

// The wait of a connection, and what holds it up if that is no process that may wait in turn.
struct Finding {
  Wait wait;
  std::vector<Culprit> culprits;  // none: the peer's process
};

// Null: the connection does not wait, or it moves.
std::optional<Finding> whyItWaits(const Job& job, End end);

// The kernel does not let the process run (SIGSTOP, a debugger).
bool isStopped(const ProcessFacts& process);
Culprit stoppedProcess(const Job& job, int process);
Culprit deadProcess(const Job& job, int process);
Culprit silentHost(const HostFacts& host);
// A process that waits for peers while its connections come up; `why`: what it waits for.
Culprit slowSetup(const Job& job, int process, const std::string& why);

// "gpu1 mlx5_1 port 1"
std::string railName(const ProcessFacts& process, const RailFacts& rail);

}  // namespace railwise::observe
