// NCCL's collectives on a channel: rings, trees and PAT.
#pragma once

#include "block.h"
#include "function.h"

namespace kernels {

// A channel's share of a collective, in elements.
struct Share {
  ssize_t count;   // of the whole collective, per rank where it gathers or scatters
  ssize_t offset;  // where the share begins
  ssize_t length;
  ssize_t chunk;
};

// A collective as NCCL's work describes it, and this channel's share. The work's structure depends on NCCL's
// release: the files that launch read it.
struct Collective {
  const void* input = nullptr;
  void* output = nullptr;
  int root = 0;
  uint64_t argument = 0;  // of the reduction
  bool argument_by_address = false;
  bool registered = false;                      // buffers, with the network
  const uintptr_t* outputs_at_peers = nullptr;  // Registration's; not null: the output is registered with the
                                                // GPUs of the host
  uintptr_t output_offset = 0;
  bool one_rank_per_host = false;
  int connection = 0;  // index of the connections; RCCL has several
  Share share{};
};

// Plays one block's share of a collective. Aborts the process, with the function's numbers, if it is none of
// those that these kernels know.
void runCollective(Block& block, const Function& function, const Collective& work);

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 0)
// Plays one block's share of an all-gather of unlike sizes (one work for each rank).
void runAllGatherV(Block& block, const Function& function, ncclDevWorkBcast* works, int count);
#endif

// PAT, NCCL's algorithm for all-gather and reduce-scatter between hosts of one rank each.
void runPatAllGather(Block& block, const Collective& work);
void runPatReduceScatter(Block& block, const Function& function, const Collective& work);

}  // namespace kernels
