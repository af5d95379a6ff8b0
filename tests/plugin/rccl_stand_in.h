// What a net plugin sees of RCCL's log, as its src/debug.cc has it at NCCL_DEBUG=WARN: lines up to level WARN
// are printed if they belong to a subsystem, and the last WARN is kept for ncclGetLastError. Two libraries
// are made of it: RCCL_WARN is 2 with the level numbers of NCCL and of RCCL before ROCm 7.2, 3 with RCCL's
// since.
#pragma once

#include "nccl/types.h"

#pragma GCC visibility push(default)
extern "C" {
using StandInLogger = void(ncclDebugLogLevel level, unsigned long flags, const char* file, int line,
                           const char* format, ...);
[[gnu::format(printf, 5, 6)]] StandInLogger standInLog;
void standInWarn(const char* text);
const char* ncclGetLastError(void* communicator);
// The lines that were printed, each with its level's word: "WARN text".
const char* standInPrinted();
void standInClear();
}
#pragma GCC visibility pop
