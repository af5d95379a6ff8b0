// What the vendor's library said of the GPUs' driver, as far as it decides about transports. A topology file
// says nothing of it.
#pragma once

#include <string>

#include "topo/machine/machine.h"

namespace railwise::topo {

// False: the driver is known to have no cuMem (CUDA's virtual memory management, as NCCL wants it: CUDA 12).
bool driverOffersCumem(const Machine& machine);

// Empty, or why the driver forbids peer to peer between two GPUs of this host, for example "chipset not
// supported".
std::string whyDriverForbidsP2p(const Machine& machine, const Node& from, const Node& to);

// The UUID of the NVLink domain that this host belongs to; empty: none.
std::string nvlinkDomain(const Machine& machine);

}  // namespace railwise::topo
