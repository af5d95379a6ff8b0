// What the buffers of a rank hold before a collective and after it. Every block gets its own values, so that
// a block at a wrong place, from a wrong rank or from an earlier run is detected. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "perf/algorithm/collectives.h"
#include "perf/algorithm/data.h"

namespace railwise::cli {

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
