// Pure rules of the path between two ports: which UDP port a RoCE flow leaves from, and how InfiniBand
// subnets are told apart. Any thread.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace railwise::verbs {

// The UDP source port that RoCE v2 packets of a queue pair with this flow label carry, by which switches
// spread flows over equal-cost paths (the kernel's rdma_flow_label_to_udp_sport, include/rdma/ib_verbs.h: 14
// bits above 0xc000). With label 0 the device chooses from the queue pairs' numbers.
uint16_t udpSourcePort(uint32_t flow_label);

// The flow label (20 bits, never 0) of lane `lane` of a connection. Lanes of one `entropy` (any value that
// differs between connections) have different UDP source ports, up to 16384 of them.
uint32_t laneFlowLabel(uint32_t entropy, uint32_t lane);

// Are two InfiniBand ports on different subnets? Where one of the GIDs has a routable LID (gid.h) by bytes 6
// and 7, the number of the subnet (NCCL 2.30.7, net_ib/connect.cc), else by the whole prefixes.
bool onOtherSubnet(const ibv_gid& local, const ibv_gid& remote);

}  // namespace railwise::verbs
