// NCCL's collectives, each verified element by element.
#pragma once

#include <cstddef>
#include <cstdint>

#include "communicator.h"
#include "element.h"

// One call of a collective.
struct Call {
  const Element* element = &kElements[0];
  ncclRedOp_t operation = ncclSum;
  std::size_t count = 0;  // elements of one rank's share
  bool in_place = false;
  int root = 0;
  uint32_t salt = 0;  // of the values
};

// Runs it and returns how many elements of this rank's result are wrong, bytes beyond the result among them.
using Collective = std::size_t (*)(const Communicator& on, const Call& call);

struct NamedCollective {
  const char* name;
  Collective run;
  bool reduces;   // it takes an operation
  bool shares;    // its largest buffer holds a share for each rank
  bool in_place;  // it can run in place
};

extern const NamedCollective kCollectives[];
extern const std::size_t kCollectiveCount;

// The one by that name; all_reduce for the checks that need any.
std::size_t allReduce(const Communicator& on, const Call& call);
std::size_t allToAll(const Communicator& on, const Call& call);
