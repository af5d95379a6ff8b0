// A logger as NCCL passes it to init: keeps the lines for the test to look at. Thread-safe.
#pragma once

#include <string>

#include "nccl/types.h"

namespace railwise::test {

[[gnu::format(printf, 5, 6)]] void keepLog(ncclDebugLogLevel level, unsigned long flags, const char* file,
                                           int line, const char* format, ...);

// All WARN lines since the last clearLog(), each ended by a newline.
std::string warnings();
// All lines, INFO too.
std::string logText();
void clearLog();

}  // namespace railwise::test
