// The kernels that NCCL's host code can name.
#pragma once

namespace kernels {

// NCCL numbers its device functions by rows, one for each combination of collective, reduction, type,
// algorithm and protocol that could exist. Here the number of a function is its row. NCCL 2.30 has some 2,000
// rows.
constexpr int kFunctionRows = 4096;

// Names of kernels: the addresses mean nothing else. All collectives, sends and receives are one kernel.
extern const void* const kKernel;
extern const void* const kOneRankKernel;

}  // namespace kernels
