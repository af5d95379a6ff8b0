// Reads files of any kind: also those of /proc and pipes, whose size the kernel does not tell. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/outcome.h"

namespace railwise {

// The first `most` bytes of a file. The error is the system's, without the name.
Outcome<std::string> wholeFile(const std::string& path, std::size_t most = SIZE_MAX);

}  // namespace railwise
