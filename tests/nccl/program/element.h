// Element types, and values that every type holds exactly, so that results can be compared bit by bit.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>

// One of NCCL's element types.
struct Element {
  ncclDataType_t type;
  const char* name;
  std::size_t bytes;
  void (*encode)(double value, void* to);
  double (*decode)(const void* from);
  unsigned values;  // inputs of sums lie below this: the sum of 16 ranks is exact
};

// Every type of this NCCL. The first is int32.
extern const Element kElements[];
extern const std::size_t kElementCount;

// One of NCCL's reductions.
struct Reduction {
  ncclRedOp_t operation;
  const char* name;
};

extern const Reduction kReductions[];
extern const std::size_t kReductionCount;

// Element `index` of what `rank` puts in. `salt` tells operations apart.
double inputOf(const Element& element, ncclRedOp_t operation, int rank, std::size_t index, uint32_t salt);

// Element `index` of the reduction over `ranks` ranks.
double reducedOf(const Element& element, ncclRedOp_t operation, int ranks, std::size_t index, uint32_t salt);

// Whether a result is right. Of averages of floating-point values that are not exact (1/ranks is rounded) it
// may differ by rounding.
bool isRight(const Element& element, ncclRedOp_t operation, double expected, double found);
