// What a rank does in a collective, as data: NCCL's algorithms over the net. A transfer is a sequence of
// steps over the connections to one rank and from one rank. Transfers of one stage run beside each other; a
// stage begins when the stage before has ended. Pure; thread-safe.
#pragma once

#include <vector>

#include "perf/algorithm/contents.h"

namespace railwise::cli {

// What happens to a chunk of a block. The data of the chunk come from the rank before (`receive`), from the
// input of this rank (`input`), or are the reduction of both. They go to the output (`keep`), to the next
// rank (`send`), or to both.
struct ChunkStep {
  int block = 0;
  bool receive = false;
  bool input = false;
  bool keep = false;
  bool send = false;
};

struct Transfer {
  int to = -1;  // the rank that gets what is sent; -1: the transfer sends nothing
  int from = -1;
  std::vector<ChunkStep> steps;  // of each chunk
  int width = 1;                 // blocks that travel as one
  // The buffer has one block, and each chunk of it is cut into so many blocks, which travel on their own
  // (all_reduce). 1: the blocks are those of the buffer.
  int cut = 1;
  bool from_output = false;  // `input` is a block of the output, which an earlier stage put there
  // In place, a chunk may be written only after the transfer before has read it.
  bool after_previous = false;
};

using Stage = std::vector<Transfer>;
using CollectivePlan = std::vector<Stage>;

// `root` has no meaning without CollectiveTraits::rooted.
CollectivePlan planOf(Collective collective, int rank, int ranks, int root);

// An upper bound of the peers to which any rank sends or from which it receives, over all roots. Every rank
// computes the same number.
int mostPeers(Collective collective, int ranks);

}  // namespace railwise::cli
