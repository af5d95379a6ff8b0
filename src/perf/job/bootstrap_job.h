// The two halves of a job that bootstrap.h joins: how its ranks find each other, and the running job.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "perf/job/bootstrap.h"
#include "perf/job/wire.h"

namespace railwise::tools {

// The job's connections: in rank 0 one per rank (its own null), elsewhere only the one to rank 0.
struct Joined {
  std::vector<std::unique_ptr<FrameChannel>> channels;
  std::vector<Peer> peers;
};

// Every rank connects to rank 0 and says who it is; when all are there, rank 0 tells everybody who they are.
// Strangers (wrong bytes, wrong secret, silence) are ignored. Main thread.
Result<Joined> joinJob(const BootstrapOptions& options, Socket listener, std::string* error);

// The monitor thread is the only reader of the sockets. It notices who dies or fails, forwards it, and ends a
// job in which nobody moves.
Result<std::unique_ptr<Bootstrap>> startJob(BootstrapOptions options, Joined joined, std::string* error);

}  // namespace railwise::tools
