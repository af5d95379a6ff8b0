// The limit that RLIMIT_FSIZE (ulimit -f) sets on the size of files. The kernel ends a process that goes
// beyond it by SIGXFSZ, also in a memory file. Thread-safe.
#pragma once

#include <sys/resource.h>

#include <cstdint>

namespace railwise {

// The size in bytes that a file of this process may have at most; UINT64_MAX: no limit.
inline uint64_t fileSizeLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  return limit.rlim_cur;
}

}  // namespace railwise
