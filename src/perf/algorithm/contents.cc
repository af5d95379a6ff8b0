#include "perf/algorithm/contents.h"

#include <algorithm>
#include <bit>

namespace railwise::cli {
namespace {

constexpr std::size_t kBlockUnit = 16;  // bytes

// Instead of a rank, in the values of memory that no rank sends.
constexpr int kNobody = -1;

}  // namespace

const CollectiveTraits& traitsOf(Collective collective) {
  for (const CollectiveTraits& traits : kCollectives) {
    if (traits.value == collective) return traits;
  }
  return kCollectives[0];
}

const char* collectiveName(Collective collective) { return traitsOf(collective).name; }

bool isOneSided(Collective collective) { return traitsOf(collective).manner != Manner::kMessages; }

std::span<const bool> placesOf(Collective collective) {
  static constexpr bool kPlaces[] = {false, true};
  return std::span(kPlaces).first(traitsOf(collective).in_place ? 2 : 1);
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
  if (collective == Collective::kAllReduce) return 2 * (n - 1) / n;
  // The bandwidth of hypercube leaves out the block that stays on its rank.
  const bool moves_all = blocksOf(collective, 2) == 1 || collective == Collective::kHypercube;
  return moves_all ? 1 : (n - 1) / n;
}

const char* impossibleWith(Collective collective, int ranks) {
  if (collective == Collective::kHypercube && !std::has_single_bit(static_cast<unsigned>(ranks)))
    return "hypercube needs a power of two of ranks: 2, 4, 8 and so on";
  if (collective == Collective::kSignalPingPong && ranks % 2 != 0)
    return "signal_pingpong needs pairs: an even number of ranks";
  return nullptr;
}

Contents::Contents(Collective collective, const Variant& variant, int rank, int ranks, uint64_t count,
                   bool in_place, uint64_t salt)
    : traits_(traitsOf(collective)),
      variant_(variant),
      rank_(rank),
      ranks_(ranks),
      blocks_(blocksOf(collective, ranks)),
      count_(count),
      in_place_(in_place),
      salt_(salt),
      element_(elementBytes(variant.type)),
      block_bytes_(count * element_) {}

bool Contents::writesOutput() const {
  const bool to_root = traits_.value == Collective::kReduce || traits_.value == Collective::kGather;
  return !to_root || isRoot();
}

// The input of `rank`. A reduction numbers the elements over all blocks.
void Contents::inputOf(int rank, int block, uint64_t first, std::span<std::byte> out) const {
  if (traits_.reduces) {
    const uint64_t at = whole(traits_.input) ? static_cast<uint64_t>(block) * count_ : 0;
    return cli::fillInput({variant_.type, variant_.op, ranks_, salt_}, rank, at + first, out);
  }
  const bool for_each = whole(traits_.input);
  fillMessage(variant_.type, salt_, rank, for_each ? block : rank, first, out);
}

void Contents::untouched(int block, uint64_t first, std::span<std::byte> out) const {
  fillMessage(variant_.type, salt_, kNobody, rank_ * ranks_ + block, first, out);
}

void Contents::expectedOf(int block, uint64_t first, std::span<std::byte> out) const {
  if (!writesOutput()) {
    const bool has_input = in_place_ && block >= firstInput() && block < firstInput() + blocksOfInput();
    return has_input ? inputOf(rank_, block, first, out) : untouched(block, first, out);
  }
  if (traits_.reduces) {
    const uint64_t at = whole(traits_.input) ? static_cast<uint64_t>(block) * count_ : 0;
    return fillReduced({variant_.type, variant_.op, ranks_, salt_}, at + first, out);
  }
  switch (traits_.value) {
    case Collective::kBroadcast:
      return inputOf(variant_.root, 0, first, out);
    case Collective::kScatter:
      return inputOf(variant_.root, rank_, first, out);
    case Collective::kSendRecv:
    case Collective::kPut:
    case Collective::kPutSignal:
    case Collective::kGet:
      return inputOf((rank_ + ranks_ - 1) % ranks_, 0, first, out);
    case Collective::kSignalPingPong:
      return inputOf(rank_ ^ 1, 0, first, out);
    case Collective::kAllToAll:
    case Collective::kPutAllToAll:
      return inputOf(block, rank_, first, out);
    default:  // gathers
      return inputOf(block, block, first, out);
  }
}

void Contents::fillInput(std::span<std::byte> input) const {
  if (block_bytes_ == 0) return;
  for (int i = 0; i < blocksOfInput(); ++i)
    inputOf(rank_, firstInput() + i, 0,
            input.subspan(static_cast<std::size_t>(i) * block_bytes_, block_bytes_));
}

void Contents::fillOutput(std::span<std::byte> output) const {
  fillExpected(0, output);
  if (writesOutput()) poison(output);
}

void Contents::fillExpected(uint64_t first, std::span<std::byte> out) const {
  for (std::size_t at = 0; at < out.size();) {
    const uint64_t index = first + at / element_;
    const uint64_t in_block = index % count_;
    const std::size_t bytes = std::min<std::size_t>(out.size() - at, (count_ - in_block) * element_);
    expectedOf(firstOutput() + static_cast<int>(index / count_), in_block, out.subspan(at, bytes));
    at += bytes;
  }
}

}  // namespace railwise::cli
