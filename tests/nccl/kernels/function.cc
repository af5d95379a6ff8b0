#include "function.h"

#include <cstdio>
#include <cstdlib>
#include <unordered_map>
#include <vector>

#include "checks.h"       // NCCL's
#include "collectives.h"  // NCCL's
#include "device.h"       // NCCL's
#include "tables.h"

namespace kernels {

namespace {

struct Functions {
  std::vector<Function> rows{kFunctionRows};

#ifdef RCCL
  // RCCL looks a function's number up by its key; any number will do.
  std::unordered_map<uint64_t, int> numbers{};
  int next = 0;

  void add(int collective, int operation, int type, int algorithm, int protocol) {
    rows[static_cast<size_t>(next)] = {collective, operation, type, algorithm, protocol};
    const auto at = [](int value, int shift) {
      return static_cast<uint64_t>(value & RCCL_FUNC_ID_MASK) << shift;
    };
    const bool ring_alone = collective == ncclFuncBroadcast || collective == ncclFuncSendRecv;
    const uint64_t key = at(collective, RCCL_COLL_SHIFT) | at(ring_alone ? 0 : algorithm, RCCL_ALGO_SHIFT) |
                         at(collective == ncclFuncSendRecv ? 0 : protocol, RCCL_PROTO_SHIFT) |
                         at(operation, RCCL_REDOP_SHIFT) | at(type, RCCL_DTYPE_SHIFT);
    for (int pipelined = 0; pipelined < 2; ++pipelined)
      numbers[key | at(pipelined, RCCL_PIPELINE_SHIFT)] = next;
    ++next;
  }
#else
  void add(int collective, int operation, int type, int algorithm, int protocol) {
    const int row = ncclDevFuncId(collective, operation, type, algorithm, protocol);
    if (row < 0 || row >= kFunctionRows) {
      std::fprintf(stderr,
                   "software GPU: NCCL's device function %d is beyond the %d that its kernels here know\n",
                   row, kFunctionRows);
      std::abort();
    }
    rows[static_cast<size_t>(row)] = {collective, operation, type, algorithm, protocol};
  }
#endif

  Functions() {
    for (int protocol = 0; protocol < NCCL_NUM_PROTOCOLS; ++protocol) {
      for (int algorithm = 0; algorithm < NCCL_NUM_ALGORITHMS; ++algorithm) {
        // Rows of algorithms that a collective does not have fall together with those of others, so rings
        // come last.
        if (algorithm == NCCL_ALGO_RING) continue;
        addAll(algorithm, protocol);
      }
    }
    for (int protocol = 0; protocol < NCCL_NUM_PROTOCOLS; ++protocol) {
      addAll(NCCL_ALGO_RING, protocol);
      add(ncclFuncBroadcast, 0, 0, NCCL_ALGO_RING, protocol);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0)
      add(ncclFuncAllGatherV, 0, 0, NCCL_ALGO_RING, protocol);
#endif
      for (int operation = 0; operation < ncclNumDevRedOps; ++operation) {
        for (int type = 0; type < ncclNumTypes; ++type)
          add(ncclFuncReduce, operation, type, NCCL_ALGO_RING, protocol);
      }
    }
#ifdef RCCL
    add(ncclFuncSendRecv, 0, 0, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE);
#else
    rows[static_cast<size_t>(ncclDevFuncId_P2p())] = {ncclFuncSendRecv, 0, 0, NCCL_ALGO_RING,
                                                      NCCL_PROTO_SIMPLE};
#endif
  }

 private:
  void addAll(int algorithm, int protocol) {
    const bool gathers = algorithm != NCCL_ALGO_TREE && algorithm != NCCL_ALGO_COLLNET_CHAIN &&
                         algorithm != NCCL_ALGO_NVLS_TREE;
    if (gathers) add(ncclFuncAllGather, 0, 0, algorithm, protocol);
    for (int operation = 0; operation < ncclNumDevRedOps; ++operation) {
      for (int type = 0; type < ncclNumTypes; ++type) {
        if (gathers) add(ncclFuncReduceScatter, operation, type, algorithm, protocol);
        bool all_reduces = true;
#ifdef NCCL_ALGO_PAT
        all_reduces = algorithm != NCCL_ALGO_PAT;
#endif
        if (all_reduces) add(ncclFuncAllReduce, operation, type, algorithm, protocol);
      }
    }
  }
};

const Functions& allFunctions() {
  static const Functions functions;
  return functions;
}

}  // namespace

const Function& functionOf(int number) {
  const Function& function = allFunctions().rows[static_cast<size_t>(number)];
  if (function.collective < 0) {
    std::fprintf(stderr, "software GPU: NCCL launches device function %d, which nothing has a number for\n",
                 number);
    std::abort();
  }
  return function;
}

bool reduces(const Function& function) {
  return function.collective == ncclFuncAllReduce || function.collective == ncclFuncReduceScatter ||
         function.collective == ncclFuncReduce;
}

size_t elementBytes(const Function& function) {
  return reduces(function) ? static_cast<size_t>(ncclTypeSize(static_cast<ncclDataType_t>(function.type)))
                           : 1;
}

}  // namespace kernels

#ifdef RCCL
std::unordered_map<uint64_t, int> ncclDevFuncNameToId = kernels::allFunctions().numbers;
#endif
