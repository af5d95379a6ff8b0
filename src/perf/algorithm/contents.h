// What the buffers of a rank hold before a collective and after it. Every block gets its own values, so that
// a block at a wrong place, from a wrong rank or from an earlier run is detected. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cli/options/options.h"
#include "perf/algorithm/data.h"

namespace railwise::cli {

// The collectives of nccl-tests and one-sided ones, and what is known of each without running it: which
// blocks its buffers have, whether it reduces, whether it has a root, and how nccl-tests computes its
// bandwidths. Pure; thread-safe.
//
// A block is the data of one rank: `count` elements of the table. An input or output has one block, a block
// for each rank, or only the block of this rank.

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
  // One-sided.
  kPut,
  kPutSignal,
  kGet,
  kSignalPingPong,
  kPutAllGather,
  kPutAllToAll,
};

enum class Blocks {
  kOne,      // one block, and no other rank has a block of its own
  kOfRanks,  // a block for each rank, in the order of the ranks
  kOwn,      // the block of this rank
};

// How the data of a collective reach another rank.
enum class Manner {
  kMessages,
  kPuts,           // the rank that puts waits until its puts are done. The other rank is not told
  kSignalledPuts,  // each put has a signal, which the other rank waits for
  kGets,           // a rank reads, and the other one is not asked
};

struct CollectiveTraits {
  const char* name;
  Collective value;
  Blocks input;
  Blocks output;
  bool reduces;
  bool rooted;
  bool ring;           // uses the two neighbours on a ring; otherwise point-to-point
  bool empty_message;  // without data, point-to-point sends one empty message, as NCCL does
  Manner manner = Manner::kMessages;
  // False: a rank would write over the input of another rank before that rank has sent its input.
  bool in_place = true;
  int ways = 1;  // how many times data travel in an operation. The time is that of one
};
inline constexpr CollectiveTraits kCollectives[] = {
    // name on the command line, value, input, output, reduces, rooted, ring, empty_message
    {"all_reduce", Collective::kAllReduce, Blocks::kOne, Blocks::kOne, true, false, true, false},
    {"all_gather", Collective::kAllGather, Blocks::kOwn, Blocks::kOfRanks, false, false, true, false},
    {"reduce_scatter", Collective::kReduceScatter, Blocks::kOfRanks, Blocks::kOwn, true, false, true, false},
    {"broadcast", Collective::kBroadcast, Blocks::kOne, Blocks::kOne, false, true, true, false},
    {"reduce", Collective::kReduce, Blocks::kOne, Blocks::kOne, true, true, true, false},
    {"sendrecv", Collective::kSendRecv, Blocks::kOne, Blocks::kOne, false, false, false, true},
    {"alltoall", Collective::kAllToAll, Blocks::kOfRanks, Blocks::kOfRanks, false, false, false, true},
    {"gather", Collective::kGather, Blocks::kOwn, Blocks::kOfRanks, false, true, false, false},
    {"scatter", Collective::kScatter, Blocks::kOfRanks, Blocks::kOwn, false, true, false, false},
    {"hypercube", Collective::kHypercube, Blocks::kOwn, Blocks::kOfRanks, false, false, false, true},
    // ... manner, in_place, ways
    {"put", Collective::kPut, Blocks::kOne, Blocks::kOne, false, false, false, false, Manner::kPuts, false},
    {"put_signal", Collective::kPutSignal, Blocks::kOne, Blocks::kOne, false, false, false, true,
     Manner::kSignalledPuts, false},
    {"get", Collective::kGet, Blocks::kOne, Blocks::kOne, false, false, false, false, Manner::kGets, false},
    {"signal_pingpong", Collective::kSignalPingPong, Blocks::kOne, Blocks::kOne, false, false, false, true,
     Manner::kSignalledPuts, false, 2},
    {"put_all_gather", Collective::kPutAllGather, Blocks::kOwn, Blocks::kOfRanks, false, false, false, false,
     Manner::kSignalledPuts},
    {"put_alltoall", Collective::kPutAllToAll, Blocks::kOfRanks, Blocks::kOfRanks, false, false, false, true,
     Manner::kSignalledPuts, false},
};
const CollectiveTraits& traitsOf(Collective collective);
const char* collectiveName(Collective collective);
// The collective runs over an RMA table.
bool isOneSided(Collective collective);
// Out of place, in place: what is measured of a collective.
std::span<const bool> placesOf(Collective collective);

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

// What a run of a collective is, apart from its size.
struct Variant {
  DataType type = DataType::kFloat;
  ReduceOp op = ReduceOp::kSum;  // kSum without CollectiveTraits::reduces
  int root = -1;                 // -1 without CollectiveTraits::rooted

  bool operator==(const Variant&) const = default;
};

class Contents {
 public:
  // `count`: elements of a block. In place, the input is a part of the output, or the other way round.
  Contents(Collective collective, const Variant& variant, int rank, int ranks, uint64_t count, bool in_place,
           uint64_t salt);

  std::size_t blockBytes() const { return block_bytes_; }
  // The size of the larger buffer. Out of place, the smaller buffer has one block.
  std::size_t bytes() const { return block_bytes_ * static_cast<std::size_t>(blocks_); }
  std::size_t inputBytes() const { return block_bytes_ * static_cast<std::size_t>(blocksOfInput()); }
  std::size_t outputBytes() const { return block_bytes_ * static_cast<std::size_t>(blocksOfOutput()); }
  // Where input and output are in their buffers: in place, both are in one buffer of bytes() bytes.
  std::size_t inputAt() const { return traits_.input == Blocks::kOwn ? ownAt() : 0; }
  std::size_t outputAt() const { return traits_.output == Blocks::kOwn ? ownAt() : 0; }
  // The number of the first block.
  int firstInput() const { return traits_.input == Blocks::kOwn ? rank_ : 0; }
  int firstOutput() const { return traits_.output == Blocks::kOwn ? rank_ : 0; }

  void fillInput(std::span<std::byte> input) const;
  // Fills the output before the run: with what is not expected, or with what must stay. In place, fill the
  // input after it.
  void fillOutput(std::span<std::byte> output) const;
  // Writes the expected elements from element `first` of the output on.
  void fillExpected(uint64_t first, std::span<std::byte> out) const;

 private:
  bool whole(Blocks blocks) const { return blocks == Blocks::kOfRanks; }
  int blocksOfInput() const { return whole(traits_.input) ? ranks_ : 1; }
  int blocksOfOutput() const { return whole(traits_.output) ? ranks_ : 1; }
  std::size_t ownAt() const { return in_place_ ? block_bytes_ * static_cast<std::size_t>(rank_) : 0; }
  bool isRoot() const { return rank_ == variant_.root; }
  // The collective writes the output of this rank.
  bool writesOutput() const;
  void inputOf(int rank, int block, uint64_t first, std::span<std::byte> out) const;
  void expectedOf(int block, uint64_t first, std::span<std::byte> out) const;
  void untouched(int block, uint64_t first, std::span<std::byte> out) const;

  const CollectiveTraits& traits_;
  const Variant variant_;
  const int rank_;
  const int ranks_;
  const int blocks_;
  const uint64_t count_;
  const bool in_place_;
  const uint64_t salt_;
  const std::size_t element_;
  const std::size_t block_bytes_;
};

}  // namespace railwise::cli
