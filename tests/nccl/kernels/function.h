// What NCCL's function numbers mean.
#pragma once

#include <cstddef>

namespace kernels {

// What a function number says (ncclDevFuncId).
struct Function {
  int collective = -1;  // ncclFunc_t; -1: not a function
  int operation = 0;    // ncclDevRedOp_t
  int type = 0;         // ncclDataType_t
  int algorithm = 0;    // NCCL_ALGO_*
  int protocol = 0;     // NCCL_PROTO_*
};

// Aborts the process, with a message, if nothing has this number.
const Function& functionOf(int number);

bool reduces(const Function& function);

// Of what NCCL counts in a collective's work: bytes, unless it reduces.
size_t elementBytes(const Function& function);

}  // namespace kernels
