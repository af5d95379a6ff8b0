#include "perf/algorithm/collectives.h"

#include <bit>

namespace railwise::cli {
namespace {

constexpr std::size_t kBlockUnit = 16;  // bytes

constexpr CollectiveTraits kTraits[] = {
    // collective                input              output           reduces rooted ring empty_message
    {Collective::kAllReduce, Blocks::kOne, Blocks::kOne, true, false, true, false},
    {Collective::kSendRecv, Blocks::kOne, Blocks::kOne, false, false, false, true},
    {Collective::kAllToAll, Blocks::kOfRanks, Blocks::kOfRanks, false, false, false, true},
    {Collective::kAllGather, Blocks::kOwn, Blocks::kOfRanks, false, false, true, false},
    {Collective::kReduceScatter, Blocks::kOfRanks, Blocks::kOwn, true, false, true, false},
    {Collective::kBroadcast, Blocks::kOne, Blocks::kOne, false, true, true, false},
    {Collective::kReduce, Blocks::kOne, Blocks::kOne, true, true, true, false},
    {Collective::kGather, Blocks::kOwn, Blocks::kOfRanks, false, true, false, false},
    {Collective::kScatter, Blocks::kOfRanks, Blocks::kOwn, false, true, false, false},
    {Collective::kHypercube, Blocks::kOwn, Blocks::kOfRanks, false, false, false, true},
};

}  // namespace

const CollectiveTraits& traitsOf(Collective collective) {
  for (const CollectiveTraits& traits : kTraits) {
    if (traits.collective == collective) return traits;
  }
  return kTraits[0];
}

const char* collectiveName(Collective collective) {
  for (const auto& choice : kCollectives) {
    if (choice.value == collective) return choice.name;
  }
  return "?";
}

int blocksOf(Collective collective, int ranks) {
  const CollectiveTraits& traits = traitsOf(collective);
  return traits.input == Blocks::kOne && traits.output == Blocks::kOne ? 1 : ranks;
}

uint64_t blockElements(Collective collective, int ranks, uint64_t bytes, std::size_t element_bytes) {
  const auto blocks = static_cast<uint64_t>(blocksOf(collective, ranks));
  const uint64_t elements = bytes / element_bytes / blocks;
  const uint64_t unit = kBlockUnit / element_bytes;
  return blocks == 1 || elements < unit ? elements : elements / unit * unit;
}

double algorithmBandwidth(Collective collective, int ranks, uint64_t bytes, double seconds) {
  if (seconds <= 0) return 0;
  const double gbytes = static_cast<double>(bytes) / 1e9 / seconds;
  // nccl-tests does not count the block that stays on its rank.
  return collective == Collective::kHypercube ? gbytes * (ranks - 1) / ranks : gbytes;
}

double busFactor(Collective collective, int ranks) {
  const double n = ranks;
  switch (collective) {
    case Collective::kAllReduce:
      return 2 * (n - 1) / n;
    case Collective::kAllToAll:
    case Collective::kAllGather:
    case Collective::kReduceScatter:
    case Collective::kGather:
    case Collective::kScatter:
      return (n - 1) / n;
    case Collective::kSendRecv:
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kHypercube:
      return 1;
  }
  return 1;
}

const char* impossibleWith(Collective collective, int ranks) {
  if (collective == Collective::kHypercube && !std::has_single_bit(static_cast<unsigned>(ranks)))
    return "hypercube needs a power of two of ranks: 2, 4, 8 and so on";
  return nullptr;
}

}  // namespace railwise::cli
