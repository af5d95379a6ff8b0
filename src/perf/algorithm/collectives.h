// The collectives of nccl-tests, and what is known of each without running it: which blocks its buffers have,
// whether it reduces, whether it has a root, and how nccl-tests computes its bandwidths. Pure; thread-safe.
//
// A block is the data of one rank: `count` elements of the table. An input or output has one block, a block
// for each rank, or only the block of this rank.
#pragma once

#include <cstdint>

#include "cli/options/options.h"

namespace railwise::cli {

enum class Collective {
  kAllReduce,
  kSendRecv,
  kAllToAll,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kHypercube,
};

// The names on the command line.
inline constexpr Choice<Collective> kCollectives[] = {{"all_reduce", Collective::kAllReduce},
                                                      {"all_gather", Collective::kAllGather},
                                                      {"reduce_scatter", Collective::kReduceScatter},
                                                      {"broadcast", Collective::kBroadcast},
                                                      {"reduce", Collective::kReduce},
                                                      {"sendrecv", Collective::kSendRecv},
                                                      {"alltoall", Collective::kAllToAll},
                                                      {"gather", Collective::kGather},
                                                      {"scatter", Collective::kScatter},
                                                      {"hypercube", Collective::kHypercube}};

enum class Blocks {
  kOne,      // one block, and no other rank has a block of its own
  kOfRanks,  // a block for each rank, in the order of the ranks
  kOwn,      // the block of this rank
};

struct CollectiveTraits {
  Collective collective;
  Blocks input;
  Blocks output;
  bool reduces;
  bool rooted;
  bool ring;           // uses the two neighbours on a ring; otherwise point-to-point
  bool empty_message;  // without data, point-to-point sends one empty message, as NCCL does
};
const CollectiveTraits& traitsOf(Collective collective);
const char* collectiveName(Collective collective);

// Blocks of the larger buffer.
int blocksOf(Collective collective, int ranks);
// Elements of a block if the larger buffer has `bytes` bytes at most. As in nccl-tests, a block is a multiple
// of 16 bytes; a smaller block, which nccl-tests measures as 0, has all elements that fit.
uint64_t blockElements(Collective collective, int ranks, uint64_t bytes, std::size_t element_bytes);

// The algorithm bandwidth of a buffer of `bytes` bytes in GB/s.
double algorithmBandwidth(Collective collective, int ranks, uint64_t bytes, double seconds);
// How many bytes the collective's best algorithm moves over the busiest link, per byte of the algorithm
// bandwidth. Their product is the bus bandwidth.
double busFactor(Collective collective, int ranks);

// Why the collective cannot run on so many ranks, in a sentence; null: it can.
const char* impossibleWith(Collective collective, int ranks);

}  // namespace railwise::cli
