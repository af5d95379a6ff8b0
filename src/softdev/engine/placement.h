// Adversarial placement: the bytes of a message become visible in an order that PCIe and NCCL's LL128
// protocol allow and that no careful program may rely against: aligned blocks of 128 bytes in random order,
// the last 8 bytes of each block after its others. Reproducible from the seed of the generator.
#pragma once

#include <cstdint>

#include "softdev/memory/mover.h"
#include "softdev/memory/peer_memory.h"
#include "softdev/queues/random.h"

namespace railwise::softdev {

// Both lists have the same bytes. In this process.
void placeHere(const Pieces& target, const Pieces& source, Random& random);
// In another process: 0 or errno; counts system calls.
int placeThere(PeerMemory& peer, const Pieces& target, const Pieces& source, Random& random, uint64_t* calls);

}  // namespace railwise::softdev
