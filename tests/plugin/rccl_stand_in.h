// What a net plugin sees of the log of NCCL, of RCCL since ROCm 7.2 and of Meta's NCCL, as their src/debug.cc
// has it at NCCL_DEBUG=WARN: lines up to level WARN are printed if they belong to a subsystem, and the last
// WARN or ERROR is kept for ncclGetLastError. A library is made of it for each: the numbers of its levels
// WARN and ERROR are STAND_IN_WARN and STAND_IN_ERROR (-1: it has no ERROR).
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
