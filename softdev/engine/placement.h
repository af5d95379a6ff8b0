// Adversarial placement: the bytes of a message become visible in an order that PCIe and NCCL's LL128
// protocol allow, but that a careless program does not expect: aligned blocks of 128 bytes in random order,
// and the last 8 bytes of each block after its other bytes. The seed of the generator makes the order
// reproducible.
#pragma once

#include <cstdint>

#include "softdev/memory/mover.h"
#include "softdev/memory/peer_memory.h"
#include "softdev/queues/random.h"

namespace railwise::softdev {

// Places bytes in this process. Both lists have the same total length.
void placeHere(const Pieces& target, const Pieces& source, Random& random);
// Places bytes in another process. Returns 0 or an errno. Adds the system calls to *calls.
int placeThere(PeerMemory& peer, const Pieces& target, const Pieces& source, Random& random, uint64_t* calls);

}  // namespace railwise::softdev
