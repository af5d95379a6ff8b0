// The running job: the monitor thread that is the only reader of the sockets, notices who dies or fails,
// forwards it, and ends a job in which nobody moves (see bootstrap.h).
#pragma once

#include <memory>
#include <string>

#include "perf/job/bootstrap.h"
#include "perf/job/bootstrap_join.h"

namespace railwise::tools {

Result<std::unique_ptr<Bootstrap>> startJob(BootstrapOptions options, Joined joined, std::string* error);

}  // namespace railwise::tools
