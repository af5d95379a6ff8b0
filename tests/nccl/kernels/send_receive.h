// NCCL's sends and receives on a channel.
#pragma once

#include <cstddef>
#include <vector>

#include "block.h"

namespace kernels {

// What this channel carries of one send or receive.
struct Message {
  int rank = -1;  // to or from whom; -1: there is no message
  char* data = nullptr;
  size_t bytes = 0;
  size_t chunk = 0;          // bytes of a step
  bool registered = false;   // with the network
  bool peer = false;         // registered with the other rank, a GPU of the host
  bool large_chunk = false;  // a chunk is more than a step of the connection's buffer
  bool ll = false;           // by the protocol LL
  int connection = 1;        // index of the connection; RCCL has several
};

struct Exchange {
  Message send;
  Message receive;
};

// Plays one block's share of sends and receives, all of them side by side.
void runSendReceive(Block& block, const std::vector<Exchange>& exchanges);

}  // namespace kernels
