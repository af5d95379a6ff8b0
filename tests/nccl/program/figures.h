// What operations cost.
#pragma once

#include "communicator.h"

// Says "figure <collective> <bytes> <us> <proxy us>" for sizes from 8 bytes to options.max: the least time of
// an operation, and the CPU time of NCCL's proxy threads per operation.
//
// With options.stats rank 0 also says "counts <collective> <bytes> <operations> <before> <after>": files with
// what that command printed before and after so many operations.
void figures(const Communicator& main);
