// Railwise's log in the log of NCCL, RCCL or a fork, with the level numbers of the library that has loaded
// us.
#pragma once

#include "nccl/types.h"

namespace railwise {

// Every line of the log goes to `logger` from then on, with `prefix` ("NET/Railwise : ") in front; null: to
// stderr. `prefix` must stay valid. Thread-safe. The first call with a logger looks how the logger's library
// numbers its levels, which leaves no trace in that library's log.
void setNcclLogger(ncclDebugLogger_t logger, const char* prefix);

}  // namespace railwise
