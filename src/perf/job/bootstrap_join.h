// How the ranks of a job connect to each other (bootstrap.h).
#pragma once

#include <memory>
#include <vector>

#include "perf/job/bootstrap.h"
#include "perf/job/wire.h"

namespace railwise::cli {

// The job's connections: in rank 0 one per rank (null for rank 0 itself), in other ranks only the one to rank
// 0.
struct Joined {
  std::vector<std::unique_ptr<FrameChannel>> channels;
  std::vector<Peer> peers;
};

// Every rank connects to rank 0 and sends its description. When all ranks have joined, rank 0 sends the
// descriptions of all ranks to every rank. Connections that are not from a rank of this job (wrong bytes,
// wrong secret, silence) are ignored. Main thread.
Outcome<Joined> joinJob(const BootstrapOptions& options, Socket listener);

}  // namespace railwise::cli
